"""A calendar: days that a tenant has given a name, such as its holidays, for any number of jobs to leave out."""

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
    """Raised whenever its days change."""
    jobs: int = 0
    """How many jobs that are not over use it."""


def make_calendar(name: str, dates: Iterable[date | str]) -> Calendar:
    """Check a calendar before it is stored. It may be empty: the jobs that use it then run on every day."""
    return Calendar(check_name(name, "calendar"), check_dates(dates, "dates"))


def dates_of(names: Iterable[str], known: Iterable[Calendar]) -> set[date]:
    """The dates of these calendars together; refuses a name that is not known."""
    by_name = {calendar.name: calendar for calendar in known}
    found: set[date] = set()
    for name in names:
        if name not in by_name:
            raise InvalidInput(
                f"there is no calendar {name!r}", field="exclude.calendars", remedy="set it first, or correct its name"
            )
        found.update(by_name[name].dates)
    return found
