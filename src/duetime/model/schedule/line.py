"""A cron line as a set of wall times: which days it names, and which times of those days. Knows no time zone.

Five fields (minute, hour, day of month, month, day of week), or six with seconds first, or a word such as `@daily`.
Which days match is cronsim's to say; the times of a day are looked up in sorted tuples, which costs the same for
`* * * * * *` as for `0 9 * * *`.
"""

from bisect import bisect_left, bisect_right
from calendar import monthrange
from datetime import date, datetime, time, tzinfo
from functools import lru_cache
from typing import NamedTuple, Protocol

from cronsim import CronSim, CronSimError

from duetime.errors import InvalidInput
from duetime.model.schedule.field import DAY_OF_MONTH, DAY_OF_WEEK, HOUR, MINUTE, MONTH, SECOND, Field, read_field
from duetime.model.schedule.moment import DAY

WORDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
LONGEST_LINE = 500
_SOME_DAY = date(2000, 1, 1)
_MONTHS_KEPT = 1200
HORIZON = 100
"""How many years are searched for a day that matches. 29 February on a given weekday may take 40."""


class Days(Protocol):
    """A set of days."""

    def __contains__(self, day: date, /) -> bool: ...

    def first_from(self, day: date) -> date | None:
        """The first of them that is not before this day."""

    def last_until(self, day: date) -> date | None:
        """The last of them that is not after this day."""


class CronDays:
    """The days that the three day fields of a cron line name."""

    def __init__(self, day_of_month: Field, month: Field, day_of_week: Field) -> None:
        numbers = " ".join(field.numbers() for field in (day_of_month, month, day_of_week))
        self._sim = CronSim(f"0 0 {numbers}", datetime.combine(_SOME_DAY, time()))
        self._months = frozenset(month.values)
        self._any = day_of_month.every and day_of_week.every
        self._found: dict[int, tuple[int, ...]] = {}

    def __contains__(self, day: date, /) -> bool:
        return day.month in self._months and (self._any or day.day in self._days_of(day.year, day.month))

    def first_from(self, day: date) -> date | None:
        year, month, least = day.year, day.month, day.day
        end = year + HORIZON
        while year <= end:
            if month in self._months:
                days = self._days_of(year, month)
                at = bisect_left(days, least)
                if at < len(days):
                    return date(year, month, days[at])
            year, month, least = year + month // 12, month % 12 + 1, 1
        return None

    def last_until(self, day: date) -> date | None:
        year, month, most = day.year, day.month, day.day
        end = max(year - HORIZON, 1900)
        while year >= end:
            if month in self._months:
                days = self._days_of(year, month)
                at = bisect_right(days, most)
                if at:
                    return date(year, month, days[at - 1])
            year, month, most = (year, month - 1, 31) if month > 1 else (year - 1, 12, 31)
        return None

    def _days_of(self, year: int, month: int) -> tuple[int, ...]:
        """The days that match in a month, which is asked for again by every job with these days."""
        found = self._found.get(year * 12 + month)
        if found is None:
            if len(self._found) >= _MONTHS_KEPT:
                self._found.clear()
            length = monthrange(year, month)[1]
            matches = self._sim.match_day
            found = tuple(day for day in range(1, length + 1) if self._any or matches(date(year, month, day)))
            self._found[year * 12 + month] = found
        return found


class CronLine(NamedTuple):
    """A cron line that has been read."""

    second: Field
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    days: Days

    @property
    def has_rhythm(self) -> bool:
        """It repeats by the minute or by the hour, rather than at fixed times of the day."""
        return self.minute.open or self.hour.open

    @property
    def either_day(self) -> bool:
        """Both kinds of day are restricted: a day that matches one of them matches."""
        return not (self.day_of_month.open or self.day_of_week.open)

    def __contains__(self, wall: object, /) -> bool:
        return (
            isinstance(wall, datetime)
            and wall.second in self.second.values
            and wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.date() in self.days
        )

    def first_from(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The first wall time of this line that is not before this one (which counts whole seconds)."""
        day = wall.date()
        if day in self.days and (found := self._first_time(wall.hour, wall.minute, wall.second)) is not None:
            return datetime.combine(day, found, zone)
        following = self.days.first_from(day + DAY)
        if following is None:
            return None
        first = time(self.hour.values[0], self.minute.values[0], self.second.values[0])
        return datetime.combine(following, first, zone)

    def last_until(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The last wall time of this line that is not after this one."""
        day = wall.date()
        if day in self.days and (found := self._last_time(wall.hour, wall.minute, wall.second)) is not None:
            return datetime.combine(day, found, zone)
        earlier = self.days.last_until(day - DAY)
        if earlier is None:
            return None
        last = time(self.hour.values[-1], self.minute.values[-1], self.second.values[-1])
        return datetime.combine(earlier, last, zone)

    def _first_time(self, hour: int, minute: int, second: int) -> time | None:
        hours, minutes, seconds = self.hour.values, self.minute.values, self.second.values
        if hour in hours:
            at = bisect_left(minutes, minute)
            if at < len(minutes) and minutes[at] == minute:
                exact = bisect_left(seconds, second)
                if exact < len(seconds):
                    return time(hour, minute, seconds[exact])
                at += 1
            if at < len(minutes):
                return time(hour, minutes[at], seconds[0])
        later = bisect_right(hours, hour)
        return time(hours[later], minutes[0], seconds[0]) if later < len(hours) else None

    def _last_time(self, hour: int, minute: int, second: int) -> time | None:
        hours, minutes, seconds = self.hour.values, self.minute.values, self.second.values
        if hour in hours:
            at = bisect_right(minutes, minute)
            if at and minutes[at - 1] == minute:
                exact = bisect_right(seconds, second)
                if exact:
                    return time(hour, minute, seconds[exact - 1])
                at -= 1
            if at:
                return time(hour, minutes[at - 1], seconds[-1])
        earlier = bisect_left(hours, hour)
        return time(hours[earlier - 1], minutes[-1], seconds[-1]) if earlier else None


@lru_cache(maxsize=16_384)
def read_line(text: str) -> CronLine:
    """Read a cron line, or refuse it by the name of the field at fault."""
    parts = _expanded(text).split()
    if len(parts) not in (5, 6):
        raise InvalidInput(
            f"{text[:60]!r} is not a cron line: it has {len(parts)} fields",
            field="cron",
            remedy="five, such as '0 9 * * MON-FRI', or six with seconds first",
        )
    kinds = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
    given = ["0", *parts] if len(parts) == 5 else parts
    second, minute, hour, day_of_month, month, day_of_week = map(read_field, kinds, given)
    days = _days(day_of_month, month, day_of_week)
    return CronLine(second, minute, hour, day_of_month, month, day_of_week, days)


def _expanded(text: str) -> str:
    if not text.isascii() or len(text) > LONGEST_LINE:
        raise InvalidInput("is not a cron line", field="cron", remedy="five fields, such as '0 9 * * MON-FRI'")
    line = text.strip()
    if not line.startswith("@"):
        return line
    known = WORDS.get(line.lower())
    if known is None:
        raise InvalidInput(f"{line[:20]!r} is not a word of cron", field="cron", remedy=", ".join(WORDS))
    return known


@lru_cache(maxsize=4096)
def _days(day_of_month: Field, month: Field, day_of_week: Field) -> Days:
    try:
        days = CronDays(day_of_month, month, day_of_week)
        if days.first_from(_SOME_DAY) is not None:
            return days
    except CronSimError:
        pass  # it looks for days such as 30 February itself
    named = ", ".join(f"{field.kind.name} {field.numbers()}" for field in (day_of_month, month, day_of_week))
    raise InvalidInput(f"never fires: no day has {named}", field="cron", remedy="L is the last day of a month")
