"""A cron line as a set of wall times: its days, and the times of those days. It knows no time zone.

Five fields (minute, hour, day of month, month, day of week), six with seconds first, seven with seconds first and a
year last, or a word such as `@daily`. The times of a day are looked up in sorted tuples, which costs the same for `* *
* * * *` as for `0 9 * * *`. Several lines, separated by semicolons, name the times of all of them.
"""

import re
from bisect import bisect_left, bisect_right
from datetime import date, datetime, time, tzinfo
from functools import lru_cache
from typing import NamedTuple, Protocol

from duetime.errors import InvalidInput
from duetime.model.schedule.cron_days import CronDays, Days
from duetime.model.schedule.cron_field import (
    DAY_OF_MONTH,
    DAY_OF_WEEK,
    HOUR,
    MINUTE,
    MONTH,
    SECOND,
    YEAR,
    Field,
    read_field,
)
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
MOST_LINES = 24
_SOME_DAY = date(2000, 1, 1)
_A_YEAR = re.compile(r"(19|20|21)[0-9]{2}")
_A_NUMBER = re.compile(r"(^|[,+-])[0-9]")


class WallTimes(Protocol):
    """A set of wall times."""

    def __contains__(self, wall: object, /) -> bool: ...

    def first_from(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The first of them at or after this one (in whole seconds)."""

    def last_until(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The last of them at or before this one."""


class CronLine(NamedTuple):
    """A parsed cron line."""

    second: Field
    minute: Field
    hour: Field
    day_of_month: Field
    month: Field
    day_of_week: Field
    days: Days
    year: Field | None = None

    @property
    def has_rhythm(self) -> bool:
        """Whether it repeats by the minute or by the hour, rather than at fixed times of the day."""
        return self.minute.open or self.hour.open

    @property
    def either_day(self) -> bool:
        """Whether both day fields are restricted: a day matches if it matches one of them."""
        return not (self.day_of_month.open or self.day_of_week.open or self.day_of_week.both)

    def __contains__(self, wall: object, /) -> bool:
        return (
            isinstance(wall, datetime)
            and wall.second in self.second.values
            and wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.date() in self.days
        )

    def first_from(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The first wall time of this line at or after this one (in whole seconds)."""
        day = wall.date()
        if day in self.days and (found := self._first_time(wall.hour, wall.minute, wall.second)) is not None:
            return datetime.combine(day, found, zone)
        following = self.days.first_from(day + DAY)
        if following is None:
            return None
        first = time(self.hour.values[0], self.minute.values[0], self.second.values[0])
        return datetime.combine(following, first, zone)

    def last_until(self, wall: datetime, zone: tzinfo | None = None) -> datetime | None:
        """The last wall time of this line at or before this one."""
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


def read_lines(text: str) -> tuple[CronLine, ...]:
    """Parse one cron line or several, or refuse them by the name of the invalid field."""
    parts = text.split(";") if ";" in text else [text]
    if len(parts) > MOST_LINES:
        raise InvalidInput(f"{len(parts)} cron lines are too many", field="cron", remedy=f"{MOST_LINES} at most")
    return tuple(read_line(part.strip()) for part in parts)


_WORDS = {"at", "daily", "each", "every", "hourly", "monthly", "on", "weekly"}
"""What a schedule in words begins with."""


@lru_cache(maxsize=16_384)
def read_line(text: str) -> CronLine:
    """Parse one cron line."""
    parts = _expanded(text).split()
    in_words = bool(parts) and parts[0].lower() in _WORDS
    if in_words or len(parts) not in (5, 6, 7):
        fields = "five, such as '0 9 * * MON-FRI'; six with seconds first; or seven, with a year last as well"
        raise InvalidInput(
            f"{text[:60]!r} is not a cron line: it has " + ("words" if in_words else f"{len(parts)} fields"),
            field="cron",
            remedy="words go into `when`" if in_words else fields,
        )
    if len(parts) == 6:
        _refuse_a_year(parts)
    if (len(parts) == 7 or parts[-3] == "?") and _A_NUMBER.search(parts[5 if len(parts) == 7 else -1]):
        raise InvalidInput(
            "a number as day of week is ambiguous beside a year or ?: 2 is Tuesday in cron, and Monday in Quartz",
            field="cron",
            remedy="write a name, such as MON",
        )
    kinds = (SECOND, MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
    given = ["0", *parts] if len(parts) == 5 else parts
    second, minute, hour, day_of_month, month, day_of_week = map(read_field, kinds, given)
    year = read_field(YEAR, given[6]) if len(given) == 7 else None
    days = _days(day_of_month, month, day_of_week, year)
    return CronLine(second, minute, hour, day_of_month, month, day_of_week, days, year)


def _refuse_a_year(parts: list[str]) -> None:
    """Six fields begin with the seconds. Where other programs put a year last, this would be a different schedule."""
    written = " ".join(parts)
    if "?" in (parts[2], parts[4]):
        raise InvalidInput(
            f"{written[:60]!r} has six fields, which begin with the seconds; these seem to end with a year",
            field="cron",
            remedy=f"as EventBridge writes it: cron({written[:60]})",
        )
    if _A_YEAR.search(parts[5]):
        raise InvalidInput(
            f"{written[:60]!r} has six fields, which begin with the seconds; the last is the day of week, not a year",
            field="cron",
            remedy=f"with seconds: 0 {written[:60]}",
        )


def _expanded(text: str) -> str:
    if not text.isascii() or len(text) > LONGEST_LINE:
        raise InvalidInput("is not a cron line", field="cron", remedy="five fields, such as '0 9 * * MON-FRI'")
    line = text.strip()
    if not line.startswith("@"):
        return line
    known = WORDS.get(line.lower())
    if known is None:
        remedy = "a job has no machine to start with: submit it when your service starts"
        raise InvalidInput(
            f"{line[:20]!r} is not a word of cron",
            field="cron",
            remedy=remedy if line.lower() == "@reboot" else f"{', '.join(WORDS)} or @every 90s",
        )
    return known


@lru_cache(maxsize=4096)
def _days(day_of_month: Field, month: Field, day_of_week: Field, year: Field | None) -> Days:
    days = CronDays(day_of_month, month, day_of_week, year)
    if days.first_from(_SOME_DAY) is not None:
        return days
    fields = (day_of_month, month, day_of_week, *(() if year is None else (year,)))
    named = ", ".join(f"{field.kind.name} {field.text}" for field in fields)
    raise InvalidInput(f"never fires: no day has {named}", field="cron", remedy="L is the last day of a month")
