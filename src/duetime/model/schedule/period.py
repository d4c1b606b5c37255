"""Durations that may count in calendar units.

    PT15M  90s  1h30m  a number of seconds          exact: hours, minutes and seconds
    P1D  P2W  P1M  P1Y  1d  2w                      days, weeks, months and years of the calendar
    P1DT12H                                         both

A day of the calendar has 23 or 25 hours when clocks change. A month added to the 31st is the last day of a shorter
month. A `timedelta` is exact: its days have 24 hours.
"""

import re
from calendar import monthrange
from datetime import datetime, timedelta
from typing import NamedTuple

from duetime.duration import parse_duration
from duetime.errors import InvalidInput

MOST_MONTHS = 1200
MOST_DAYS = 36_525
_LAST_YEAR = 9900

_ISO = re.compile(
    r"P(?:(?P<years>[0-9]{1,6})Y)?(?:(?P<months>[0-9]{1,6})M)?(?:(?P<weeks>[0-9]{1,6})W)?(?:(?P<days>[0-9]{1,6})D)?"
    r"(?P<exact>T[0-9.HMS]+)?"
)
_SHORT = re.compile(
    r"(?:(?P<weeks>[0-9]{1,6}) ?w)? ?(?:(?P<days>[0-9]{1,6}) ?d)? ?(?P<exact>(?:[0-9.]+ ?(?:h|ms|m|s) ?)*)"
)
_PARTS = re.compile(r"[0-9]+(?:\.[0-9]+)?\s*[wdYMWD]")


class Period(NamedTuple):
    """Months and days of the calendar, and an exact part."""

    months: int = 0
    days: int = 0
    exact: timedelta = timedelta(0)

    @property
    def in_calendar(self) -> bool:
        return bool(self.months or self.days)

    def __str__(self) -> str:
        """In ISO 8601."""
        years, months = divmod(self.months, 12)
        weeks, days = divmod(self.days, 7)
        if weeks and days:
            weeks, days = 0, self.days
        dated = "".join(
            f"{count}{unit}" for count, unit in ((years, "Y"), (months, "M"), (weeks, "W"), (days, "D")) if count
        )
        return f"P{dated}{iso_exact(self.exact)}" if dated or self.exact else "PT0S"


def parse_period(value: timedelta | str | float, field: str) -> Period:
    """Parse a duration that may count in calendar units, or refuse it."""
    if isinstance(value, str) and (match := _matched(value)):
        parts = match.groupdict()
        count = {name: int(parts.get(name) or 0) for name in ("years", "months", "weeks", "days")}
        period = Period(
            count["years"] * 12 + count["months"],
            count["weeks"] * 7 + count["days"],
            parse_exact(_rest(match), field),
        )
        if period.months > MOST_MONTHS or period.days > MOST_DAYS:
            raise InvalidInput(f"{value[:60]!r} is too long", field=field, remedy="100 years at most")
        return period
    if isinstance(value, str) and "." in value and _PARTS.search(value):
        raise InvalidInput(
            f"{value[:60]!r} has a fraction of a calendar day or month",
            field=field,
            remedy="write it in hours",
        )
    return Period(exact=parse_exact(value, field))


def walk_calendar(wall: datetime, months: int, days: int) -> datetime:
    """This many months and days later; the last day of the month if the month is too short."""
    if months:
        year, month = divmod(wall.year * 12 + wall.month - 1 + months, 12)
        if year > _LAST_YEAR:
            return wall.replace(year=_LAST_YEAR)
        wall = wall.replace(year=year, month=month + 1, day=min(wall.day, monthrange(year, month + 1)[1]))
    return wall + timedelta(days=days)


def iso_exact(length: timedelta) -> str:
    """The time part of an ISO 8601 duration: T1H30M; empty for none."""
    minutes, seconds = divmod(length, timedelta(minutes=1))
    hours, minutes = divmod(minutes, 60)
    fraction = f"{seconds.microseconds / 1e6:.6f}"[1:].rstrip("0").rstrip(".")
    written = "".join(f"{count}{unit}" for count, unit in ((hours, "H"), (minutes, "M")) if count)
    if seconds:
        written += f"{seconds.seconds}{fraction}S"
    return f"T{written}" if written else ""


def _matched(text: str) -> re.Match[str] | None:
    stripped = " ".join(text.split())
    match = _ISO.fullmatch(stripped) or _SHORT.fullmatch(stripped)
    named = match and any(value for name, value in match.groupdict().items() if name != "exact")
    return match if named else None


def _rest(match: re.Match[str]) -> str:
    exact = match["exact"] or ""
    return f"P{exact}" if exact.startswith("T") else exact or "0"


def parse_exact(value: timedelta | str | float, field: str) -> timedelta:
    """Parse an exact duration."""
    try:
        return parse_duration(value)
    except (ValueError, TypeError) as error:
        raise InvalidInput(str(error), field=field) from None
