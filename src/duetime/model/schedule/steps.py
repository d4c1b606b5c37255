"""The fires of an interval, found by their number: anchor + n × interval."""

from bisect import bisect_right
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from duetime.model.schedule.allowed import AllowedDays
from duetime.model.schedule.cron_days import HORIZON
from duetime.model.schedule.exclusion import Exclusion
from duetime.model.schedule.moment import DAY, MICROSECOND, UnusableSchedule
from duetime.model.schedule.period import Period, walk_calendar
from duetime.model.schedule.walk import Walk
from duetime.model.schedule.zone import change_at, day_exists, offsets, reach, wall_of, zone_named

_YEARS = timedelta(days=366 * HORIZON)
_SLACK = 3 * DAY
"""More than all the clock changes of a zone can move a fire."""
_NEAR = 2 * DAY
"""Within this distance, the next step of a day or more is found sooner than the start of the next allowed day."""


class ExactSteps(Walk):
    """Steps of real time, independent of clock changes."""

    def __init__(self, anchor: datetime, interval: timedelta, first: int, count: int | None) -> None:
        super().__init__()
        if interval < MICROSECOND:
            raise UnusableSchedule("an interval of no length")
        self._anchor = anchor
        self.interval = interval
        self._first = first
        self._last = None if count is None else first + count - 1

    def _next(self, moment: datetime) -> datetime | None:
        number = max((moment - self._anchor) // self.interval + 1, self._first)
        return None if self._last is not None and number > self._last else self._anchor + number * self.interval

    def _latest(self, moment: datetime) -> datetime | None:
        number = (moment - self._anchor) // self.interval
        if self._last is not None:
            number = min(number, self._last)
        return None if number < self._first else self._anchor + number * self.interval

    def count_between(self, after: datetime, until: datetime, most: int) -> int:
        first = max((after - self._anchor) // self.interval + 1, self._first)
        last = (until - self._anchor) // self.interval
        return max(0, (last if self._last is None else min(last, self._last)) - first + 1)

    def asked(self, fire: datetime) -> None:
        return None


class ExactStepsOnAllowedDays(Walk):
    """Exact steps without those on excluded days."""

    def __init__(self, steps: ExactSteps, allowed: AllowedDays, zone: ZoneInfo) -> None:
        super().__init__()
        self._steps = steps
        self._allowed = allowed
        self._zone = zone

    def _next(self, moment: datetime) -> datetime | None:
        found = self._steps.next_after(moment)
        end = moment + _YEARS
        while found is not None and found < end:
            wall = wall_of(found, self._zone)
            if wall.date() in self._allowed:
                return found
            following = self._allowed.first_from(wall.date())
            if self._steps.interval >= DAY and following - wall.date() <= _NEAR:
                found = self._steps.next_after(found)
                continue
            morning = reach(_midnight(following), self._zone)
            change = change_at(wall, self._zone)
            if change is not None and not wall.fold:
                morning = min(morning, change.at)  # clocks that go back over midnight return to the previous day
            found = self._steps.next_after(max(morning - MICROSECOND, found))
        return None

    def _latest(self, moment: datetime) -> datetime | None:
        found = self._steps.latest_until(moment)
        end = moment - _YEARS
        while found is not None and found > end:
            wall = wall_of(found, self._zone)
            if wall.date() in self._allowed:
                return found
            first = self._allowed.run_start(wall.date())
            if self._steps.interval >= DAY and wall.date() - first < _NEAR:
                found = self._steps.latest_until(found - MICROSECOND)
                continue
            morning = _midnight(first)
            started = (morning - min(offsets(morning, self._zone))).replace(tzinfo=UTC)
            change = change_at(wall, self._zone)
            if change is not None and wall.fold:
                started = max(started, change.at)
            found = self._steps.latest_until(min(started, found) - MICROSECOND)
        return None

    def asked(self, fire: datetime) -> None:
        return None


class CalendarSteps(Walk):
    """Steps of months and days through the calendar of a zone, each with an exact part on top."""

    def __init__(
        self,
        anchor: datetime,
        period: Period,
        zone: ZoneInfo,
        first: int,
        count: int | None,
        allowed: AllowedDays | None,
    ) -> None:
        super().__init__()
        self._anchor = anchor
        self._wall = wall_of(anchor, zone).replace(fold=0)
        self._period = period
        self._zone = zone
        self._first = first
        self._last = None if count is None else first + count - 1
        self._allowed = allowed
        self._moves = allowed is not None and allowed.moves
        self._skips = None if allowed is None or allowed.moves or period.exact else allowed
        """The excluded days, if a fire's wall time alone decides whether it is excluded."""
        self._shortest = period.months * 28 * DAY + period.days * DAY + period.exact
        self._longest = period.months * 31 * DAY + period.days * DAY + period.exact

    def _next(self, moment: datetime) -> datetime | None:
        number = self._number_after(moment)
        while self._last is None or number <= self._last:
            if self._skips is not None and self._skips.excludes(day := self._named(number).date()):
                if day - moment.date() > _YEARS:
                    return None
                number += max(1, (self._skips.first_from(day) - day) // self._longest)
                continue
            fire = self._fire(number)
            if self._is_owed(number, fire):
                return fire
            if fire - moment > _YEARS:
                return None
            number += 1
        return None

    def _latest(self, moment: datetime) -> datetime | None:
        number = self._number_after(moment) - 1
        if self._last is not None:
            number = min(number, self._last)
        while number >= self._first:
            if self._skips is not None and self._skips.excludes(day := self._named(number).date()):
                if moment.date() - day > _YEARS:
                    return None
                number -= max(1, (day - self._skips.run_start(day)) // self._longest)
                continue
            fire = self._fire(number)
            if self._is_owed(number, fire):
                return fire
            if moment - fire > _YEARS:
                return None
            number -= 1
        return None

    def asked(self, fire: datetime) -> datetime | None:
        return None if self._period.exact else self._named(self._number_after(fire - MICROSECOND))

    def _number_after(self, moment: datetime) -> int:
        """The number of the first fire after this moment."""
        passed = moment - self._anchor
        low = self._first if self._moves else max(self._first, (passed - _SLACK) // self._longest)
        high = max(low, (passed + _SLACK) // self._shortest + 1)
        return low + bisect_right(range(low, high), moment, key=self._fire)

    def _fire(self, number: int) -> datetime:
        named = self._named(number)
        if number == 0 and named == self._wall:
            return self._anchor  # a given moment, even if it is the second of two
        return reach(named, self._zone) + number * self._period.exact

    def _named(self, number: int) -> datetime:
        wall = walk_calendar(self._wall, number * self._period.months, number * self._period.days)
        if self._moves and self._allowed is not None and day_exists(wall.date(), self._zone):
            return datetime.combine(self._allowed.first_from(wall.date()), wall.time())
        return wall

    def _is_owed(self, number: int, fire: datetime) -> bool:
        named = self._named(number)
        if not day_exists(named.date(), self._zone):
            return False
        if self._allowed is None or self._moves:
            return True
        return (wall_of(fire, self._zone) if self._period.exact else named).date() in self._allowed


def exact_steps(
    anchor: datetime, interval: timedelta, zone: str, first: int, count: int | None, exclude: Exclusion | None
) -> Walk:
    # Every job has its own anchor: there is little to cache, and little to compute.
    if exclude is None:
        return ExactSteps(anchor, interval, first, count)
    return _exact_steps_on(anchor, interval, zone, first, count, exclude)


@lru_cache(maxsize=4096)
def _exact_steps_on(
    anchor: datetime, interval: timedelta, zone_name: str, first: int, count: int | None, exclude: Exclusion
) -> Walk:
    zone = zone_named(zone_name)
    allowed = AllowedDays(exclude, zone)
    if allowed.moves:
        raise UnusableSchedule("`next_day` requires an interval in calendar days")
    return ExactStepsOnAllowedDays(ExactSteps(anchor, interval, first, count), allowed, zone)


@lru_cache(maxsize=16_384)
def calendar_steps(
    anchor: datetime, period: Period, zone_name: str, first: int, count: int | None, exclude: Exclusion | None
) -> Walk:
    zone = zone_named(zone_name)
    allowed = None if exclude is None else AllowedDays(exclude, zone)
    if allowed is not None and allowed.moves and period.exact:
        raise UnusableSchedule("an interval with an exact part has no wall time to keep on another day")
    return CalendarSteps(anchor, period, zone, first, count, allowed)


def _midnight(day: date) -> datetime:
    return datetime.combine(day, time())
