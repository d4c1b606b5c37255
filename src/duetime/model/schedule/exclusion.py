"""Days on which a job shall not run: dates and days of the week, in the job's zone.

What would have run on such a day is skipped, or runs at the same wall time on the next allowed day; two that come to
the same moment there are one. A day that the zone itself skipped is not allowed either, but nothing is owed for it.
"""

from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from typing import Literal, get_args
from zoneinfo import ZoneInfo

import msgspec

from duetime.errors import InvalidInput
from duetime.model.schedule.field import WEEKDAYS
from duetime.model.schedule.line import HORIZON, Days
from duetime.model.schedule.moment import DAY, UnusableSchedule
from duetime.model.schedule.zone import day_exists

Instead = Literal["skip", "next_day"]
MOST_DATES = 1_000
_YEARS = timedelta(days=366 * HORIZON)
_NAMES = WEEKDAYS[1:] + WEEKDAYS[:1]


class Calendar(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The days to leave out. Use `make_calendar`, which checks them and brings them in order."""

    dates: tuple[date, ...] = ()
    weekdays: tuple[str, ...] = ()
    """MON to SUN."""
    instead: Instead = "skip"


class AllowedDays:
    """The days that a calendar leaves, in a zone."""

    def __init__(self, calendar: Calendar, zone: ZoneInfo) -> None:
        self._dates = frozenset(calendar.dates)
        self._weekdays = frozenset(_NAMES.index(name) for name in calendar.weekdays if name in _NAMES)
        if len(self._weekdays) == 7:
            raise UnusableSchedule("its calendar leaves no day of the week")
        self._zone = zone
        self.moves = calendar.instead == "next_day"
        """Whether what falls on another day is moved to the next of these days."""

    def __contains__(self, day: date, /) -> bool:
        return day not in self._dates and day.weekday() not in self._weekdays and day_exists(day, self._zone)

    def first_from(self, day: date) -> date:
        while day not in self:
            day += DAY
        return day

    def run_start(self, day: date) -> date:
        """The first of the days that lead up to this one and are all left out; this one if there is none."""
        while day - DAY not in self:
            day -= DAY
        return day

    def owes(self, day: date) -> bool:
        """Whether what falls on this day is owed: nothing is, for a day that the zone skipped."""
        return day_exists(day, self._zone)


class FilteredDays:
    """A set of days with a calendar laid over it."""

    def __init__(self, days: Days, allowed: AllowedDays) -> None:
        self._days = days
        self._allowed = allowed

    def __contains__(self, day: date, /) -> bool:
        if day not in self._allowed:
            return False
        return self.first_from(day) == day if self._allowed.moves else day in self._days

    def first_from(self, day: date) -> date | None:
        allowed, end = self._allowed, day + _YEARS
        found = self._days.first_from(allowed.run_start(day) if allowed.moves else day)
        while found is not None and found <= end:
            moved = allowed.first_from(found)
            if moved == found or (allowed.moves and allowed.owes(found)):
                return moved
            found = self._days.first_from(found + DAY if allowed.moves else moved)
        return None

    def last_until(self, day: date) -> date | None:
        allowed, end = self._allowed, day - _YEARS
        found = self._days.last_until(day)
        while found is not None and found >= end:
            moved = allowed.first_from(found)
            arrives = allowed.moves and moved <= day
            if moved == found or (arrives and allowed.owes(found)):
                return moved
            found = self._days.last_until((found if arrives else allowed.run_start(found)) - DAY)
        return None


def make_calendar(
    dates: Iterable[date | str] = (), weekdays: Iterable[str] = (), instead: Instead = "skip"
) -> Calendar:
    """Check the days to leave out, or say which of them cannot be used."""
    for name, given in (("dates", dates), ("weekdays", weekdays)):
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidInput(
                "is not a list of days", field=f"exclude.{name}", remedy="such as ['2026-12-25'] or ['SUN']"
            )
    names = {_weekday(name) for name in weekdays}
    if len(names) == 7:
        raise InvalidInput("leaves no day of the week", field="exclude.weekdays")
    days = sorted({_date(day) for day in dates})
    if len(days) > MOST_DATES:
        raise InvalidInput(f"{len(days):,} dates are too many", field="exclude.dates", remedy=f"{MOST_DATES:,} at most")
    if not days and not names:
        raise InvalidInput("names no day", field="exclude", remedy="give dates, weekdays, or leave it out")
    if instead not in get_args(Instead):
        raise InvalidInput(f"{str(instead)[:20]!r} is not known", field="exclude.instead", remedy="skip or next_day")
    return Calendar(tuple(days), tuple(sorted(names, key=_NAMES.index)), instead)


def check_calendar(value: object) -> Calendar:
    """A calendar, or what a caller wrote for one."""
    if isinstance(value, Calendar):
        return make_calendar(value.dates, value.weekdays, value.instead)
    if not isinstance(value, Mapping) or not value.keys() <= {"dates", "weekdays", "instead"}:
        raise InvalidInput(
            "is not a calendar", field="exclude", remedy="such as {'weekdays': ['SAT', 'SUN'], 'instead': 'next_day'}"
        )
    return make_calendar(**value)


def _weekday(name: object) -> str:
    short = name.upper()[:3] if isinstance(name, str) and name.isascii() else ""
    full = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
    if short not in _NAMES or not isinstance(name, str) or name.upper() not in (short, full[_NAMES.index(short)]):
        raise InvalidInput(
            f"{str(name)[:20]!r} is not a day of the week", field="exclude.weekdays", remedy="MON to SUN"
        )
    return short


def _date(day: object) -> date:
    if type(day) is date:
        return day
    try:
        if isinstance(day, str) and len(day) == 10 and day.isascii():
            return date.fromisoformat(day)
    except ValueError:
        pass
    raise InvalidInput(f"{str(day)[:20]!r} is not a date", field="exclude.dates", remedy="such as 2026-12-25")
