"""The wall times of a recurrence rule: its days, and the times of those days."""

from datetime import date, datetime, time, timedelta, tzinfo
from typing import NamedTuple, NoReturn

from duetime.model.schedule.cron_days import HORIZON, Days
from duetime.model.schedule.cron_field import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    Field,
    Kind,
    read_field,
)
from duetime.model.schedule.cron_line import CronLine
from duetime.model.schedule.moment import DAY
from duetime.model.schedule.rrule_days import RRuleDays
from duetime.model.schedule.rrule_parts import DAILY, FREQUENCIES, Parts, refuse

_SECONDS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}
_WHOLE_DAY = 86_400
ENDLESS = datetime(9999, 1, 1)  # noqa: DTZ001 - a wall time
_CENTURY = timedelta(days=366 * HORIZON)


class Steps(NamedTuple):
    """Wall times at an even distance in seconds, counted from the first. Every day has at least one."""

    begin: datetime
    step: timedelta
    days: Days

    def __contains__(self, wall: object, /) -> bool:
        if not isinstance(wall, datetime):
            return False
        return not (wall.replace(tzinfo=None) - self.begin) % self.step and wall.date() in self.days

    def first_from(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        day = wall.date()
        if day in self.days:
            found = self._up(wall.replace(tzinfo=None))
            if found.date() == day:
                return found.replace(tzinfo=zone)
        following = self.days.first_from(day + DAY)
        return None if following is None else self._up(datetime.combine(following, time())).replace(tzinfo=zone)

    def last_until(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        day = wall.date()
        if day in self.days:
            found = self._down(wall.replace(tzinfo=None))
            if found.date() == day:
                return found.replace(tzinfo=zone)
        earlier = self.days.last_until(day - DAY)
        return None if earlier is None else self._down(datetime.combine(earlier, time(23, 59, 59))).replace(tzinfo=zone)

    def _up(self, wall: datetime) -> datetime:
        return self.begin + -((self.begin - wall) // self.step) * self.step

    def _down(self, wall: datetime) -> datetime:
        return self.begin + (wall - self.begin) // self.step * self.step


class RRuleTimes(NamedTuple):
    """The wall times of a rule, from its DTSTART to its end."""

    times: CronLine | Steps
    begin: datetime
    end: datetime

    def __contains__(self, wall: object, /) -> bool:
        return isinstance(wall, datetime) and self.begin <= wall.replace(tzinfo=None) <= self.end and wall in self.times

    def first_from(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        found = self.times.first_from(max(wall.replace(tzinfo=None, microsecond=0, fold=0), self.begin), zone)
        return None if found is None or found.replace(tzinfo=None) > self.end else found

    def last_until(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        found = self.times.last_until(min(wall.replace(tzinfo=None, microsecond=0, fold=0), self.end), zone)
        return None if found is None or found.replace(tzinfo=None) < self.begin else found

    def on_days(self, days: Days) -> "RRuleTimes":
        return self._replace(times=self.times._replace(days=days))


def times_of(parts: Parts) -> RRuleTimes:
    """The wall times of a rule; refuses a rule without any."""
    days = RRuleDays(parts)
    times = _times(parts, days)
    begin = parts.begin or datetime(1900, 1, 1)  # noqa: DTZ001 - a wall time
    end = ENDLESS
    if parts.until is not None and parts.until.tzinfo is None:
        end = parts.until
    first = times.first_from(max(begin, datetime(1970, 1, 1)))  # noqa: DTZ001 - a wall time
    if first is None and parts.interval > 1 and RRuleDays(parts._replace(interval=1)).first_from(begin.date()):
        refuse(f"never fires: INTERVAL={parts.interval} from DTSTART passes over the days that the rule names")
    if first is None:
        refuse("never fires: no day has what the rule names", "BYMONTHDAY=-1 is the last day of a month")
    if first > end:
        refuse(f"never fires: UNTIL lies before its first time, {first:%Y-%m-%d %H:%M}", "a later UNTIL")
    if parts.most is not None:
        end = _last_of(times, days, first, parts.most)
    return RRuleTimes(times, begin, end)


def _times(parts: Parts, days: Days) -> CronLine | Steps:
    """Hours, minutes and seconds that each day has; or steps, for an interval that does not fit into them."""
    frequency, interval = FREQUENCIES[parts.frequency], parts.interval
    hours, minutes, seconds = (
        parts.hours or tuple(range(24)),
        parts.minutes or tuple(range(60)),
        parts.seconds or tuple(range(60)),
    )
    if parts.frequency > DAILY and interval > 1 and parts.begin is not None:
        begin = parts.begin
        if frequency == "HOURLY" and 24 % interval == 0:
            hours = tuple(hour for hour in hours if (hour - begin.hour) % interval == 0)
        elif frequency == "MINUTELY" and 60 % interval == 0:
            minutes = tuple(minute for minute in minutes if (minute - begin.minute) % interval == 0)
        elif frequency == "SECONDLY" and 60 % interval == 0:
            seconds = tuple(second for second in seconds if (second - begin.second) % interval == 0)
        else:
            return _steps(parts, days)
        if not (hours and minutes and seconds):
            refuse(f"never fires: INTERVAL={interval} from DTSTART passes over the times that the rule names")
    every = read_field(DAY_OF_MONTH, "*"), read_field(MONTH, "*"), read_field(DAY_OF_WEEK, "*")
    rhythm = parts.frequency > DAILY
    fields = (_field(SECOND, seconds), _field(MINUTE, minutes), _field(HOUR, hours, is_open=rhythm))
    return CronLine(*fields, *every, days)


def _steps(parts: Parts, days: Days) -> Steps:
    frequency, interval, begin = FREQUENCIES[parts.frequency], parts.interval, parts.begin
    assert begin is not None
    step = interval * _SECONDS[frequency]
    if step > _WHOLE_DAY:
        refuse(f"FREQ={frequency};INTERVAL={interval} is longer than a day", "FREQ=DAILY, or every with start_at")
    given = [
        name
        for name, values, usual in (
            ("BYHOUR", parts.hours, ()),
            ("BYMINUTE", parts.minutes, (begin.minute,) if frequency == "HOURLY" else ()),
            ("BYSECOND", parts.seconds, () if frequency == "SECONDLY" else (begin.second,)),
        )
        if values != usual
    ]
    if given:
        refuse(
            f"{given[0]} cannot be combined with FREQ={frequency};INTERVAL={interval}, which has other times every day",
            "an interval that goes into a day or an hour evenly",
        )
    return Steps(begin, timedelta(seconds=step), days)


def _field(kind: Kind, values: tuple[int, ...], *, is_open: bool = False) -> Field:
    return Field(kind, (), is_open, values, "")


def _last_of(times: CronLine | Steps, days: RRuleDays, first: datetime, count: int) -> datetime:
    """The wall time with this number, counted from the first. Refuses a number that a century does not have."""
    if isinstance(times, Steps):
        if not days.every_day:
            refuse(
                "COUNT cannot be combined with an interval that has other times every day and leaves out days", "UNTIL"
            )
        if (count - 1) * times.step >= _CENTURY:
            _refuse_count(count)
        return times.begin + (count - 1) * times.step
    hours, minutes, seconds = times.hour.values, times.minute.values, times.second.values
    per_day = len(hours) * len(minutes) * len(seconds)
    at = hours.index(first.hour) * len(minutes) + minutes.index(first.minute)
    left = count + at * len(seconds) + seconds.index(first.second)
    for year in range(first.year, first.year + HORIZON):
        start = date(year, 1, 1).toordinal()
        passed = first.toordinal() - start
        offsets = [offset for offset in days.of_year(year) if offset >= passed]
        if left <= len(offsets) * per_day:
            day, index = divmod(left - 1, per_day)
            index, second = divmod(index, len(seconds))
            hour, minute = divmod(index, len(minutes))
            at_time = time(hours[hour], minutes[minute], seconds[second])
            return datetime.combine(date.fromordinal(start + offsets[day]), at_time)
        left -= len(offsets) * per_day
    return _refuse_count(count)


def _refuse_count(count: int) -> NoReturn:
    refuse(f"COUNT={count} lasts for more than a century", "leave it out, or UNTIL")
