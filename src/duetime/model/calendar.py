"""A calendar: a named set of a tenant's days, such as its holidays, for any number of jobs to exclude."""

from collections.abc import Iterable
from datetime import date

import msgspec

from duetime.errors import InvalidInput
from duetime.model.name import check_name
from duetime.model.schedule.exclusion import check_dates


class Calendar(msgspec.Struct, frozen=True):
    """A tenant's calendar."""

    name: str
    dates: tuple[date, ...]
    version: int = 1
    """Incremented whenever its days change."""
    jobs: int = 0
    """How many live jobs use it."""


def make_calendar(name: str, dates: Iterable[date | str]) -> Calendar:
    """Validate a calendar before it is stored. It may be empty: the jobs that use it then run on every day."""
    return Calendar(check_name(name, "calendar"), check_dates(dates, "dates"))


def dates_of(names: Iterable[str], known: Iterable[Calendar]) -> set[date]:
    """The dates of these calendars together; refuses an unknown name."""
    by_name = {calendar.name: calendar for calendar in known}
    found: set[date] = set()
    for name in names:
        if name not in by_name:
            raise InvalidInput(
                f"the calendar {name!r} does not exist",
                field="exclude.calendars",
                remedy="create it, or correct its name",
            )
        found.update(by_name[name].dates)
    return found
