"""Excluded days: dates, days of the week and the tenant's calendars, in the job's zone.

An occurrence on such a day is skipped, or runs at the same wall time on the next allowed day; two that come to the same
moment there are one. A day that the zone itself skipped is not allowed either, but nothing is owed for it.
"""

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Literal, get_args

import msgspec

from duetime.errors import InvalidInput, not_a_choice
from duetime.model.name import check_name
from duetime.model.schedule.cron_field import WEEKDAYS

Instead = Literal["skip", "next_day"]
MOST_DATES = 1_000
MOST_CALENDARS = 10
WEEKDAY_NAMES = WEEKDAYS[1:] + WEEKDAYS[:1]
_FULL_NAMES = ("MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY")
_PARTS = ("dates", "weekdays", "calendars")


class Exclusion(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """The excluded days. Use `make_exclusion`, which validates and sorts them."""

    dates: tuple[date, ...] = ()
    weekdays: tuple[str, ...] = ()
    """MON to SUN."""
    instead: Instead = "skip"
    calendars: tuple[str, ...] = ()
    """The tenant's calendars, by name."""
    held: tuple[date, ...] = ()
    """The dates of those calendars, as the store found them: a schedule computes without any I/O."""

    def holding(self, dates: Iterable[date]) -> "Exclusion":
        """The same, with these as the dates of its calendars."""
        return msgspec.structs.replace(self, held=tuple(sorted({*dates})))


def make_exclusion(
    dates: Iterable[date | str] = (),
    weekdays: Iterable[str] = (),
    instead: Instead = "skip",
    calendars: Iterable[str] = (),
) -> Exclusion:
    """Validate the excluded days, or refuse the invalid ones."""
    for part, given in zip(_PARTS, (dates, weekdays, calendars), strict=True):
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise InvalidInput(
                f"is not a list of {part}", field=f"exclude.{part}", remedy="such as ['2026-12-25'] or ['SUN']"
            )
    days = {_weekday(name) for name in weekdays}
    if len(days) == 7:
        raise InvalidInput("excludes every day of the week", field="exclude.weekdays")
    names = sorted({check_name(name, "exclude.calendars") for name in calendars})
    if len(names) > MOST_CALENDARS:
        raise InvalidInput(
            f"{len(names)} calendars are too many", field="exclude.calendars", remedy=f"{MOST_CALENDARS} at most"
        )
    listed = check_dates(dates, "exclude.dates")
    if not listed and not days and not names:
        raise InvalidInput("contains no day", field="exclude", remedy="set dates, weekdays or calendars, or omit it")
    if instead not in get_args(Instead):
        raise not_a_choice(instead, get_args(Instead), "exclude.instead")
    return Exclusion(listed, tuple(sorted(days, key=WEEKDAY_NAMES.index)), instead, tuple(names))


def check_exclusion(value: object) -> Exclusion:
    """An exclusion, or what a caller wrote for one."""
    if isinstance(value, Exclusion):
        return make_exclusion(value.dates, value.weekdays, value.instead, value.calendars)
    if not isinstance(value, Mapping) or not value.keys() <= {*_PARTS, "instead"}:
        raise InvalidInput(
            "is not a set of days",
            field="exclude",
            remedy="such as {'weekdays': ['SAT', 'SUN'], 'calendars': ['holidays'], 'instead': 'next_day'}",
        )
    return make_exclusion(**value)


def check_dates(dates: Iterable[date | str], field: str) -> tuple[date, ...]:
    """Dates, each once and in order."""
    if isinstance(dates, str) or not isinstance(dates, Iterable):
        raise InvalidInput("is not a list of dates", field=field, remedy="such as ['2026-12-25']")
    found = sorted({_date(day, field) for day in dates})
    if len(found) > MOST_DATES:
        raise InvalidInput(f"{len(found):,} dates are too many", field=field, remedy=f"{MOST_DATES:,} at most")
    return tuple(found)


def _weekday(name: object) -> str:
    given = name.upper() if isinstance(name, str) and name.isascii() else ""
    short = given[:3]
    if short not in WEEKDAY_NAMES or given not in (short, _FULL_NAMES[WEEKDAY_NAMES.index(short)]):
        raise InvalidInput(
            f"{str(name)[:20]!r} is not a day of the week", field="exclude.weekdays", remedy="MON to SUN"
        )
    return short


def _date(day: object, field: str) -> date:
    if type(day) is date:
        return day
    try:
        if isinstance(day, str) and len(day) == 10 and day.isascii():
            return date.fromisoformat(day)
    except ValueError:
        pass
    raise InvalidInput(f"{str(day)[:20]!r} is not a date", field=field, remedy="such as 2026-12-25")
