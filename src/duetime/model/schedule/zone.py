"""The wall clock of a time zone, and its clock changes.

A *wall time* is a naive datetime: what that clock shows. Clocks that go forward leave a gap of wall times that do not
exist; clocks that go back show some wall times twice; a zone that crosses the date line forward loses a whole day.

One function gives every wall time its moment: `reach`, the first moment at which the clock shows that time or a later
one. So a time inside a gap is reached right after the gap, a time that exists twice is reached when it comes first, and
later wall times are never reached before earlier ones.
"""

import errno
import re
from datetime import UTC, date, datetime, time, timedelta
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from duetime.errors import InvalidInput, Overloaded
from duetime.model.schedule.moment import DAY, SECOND, UnknownHere
from duetime.text.suggestions import search_budget

_OFFSET = re.compile(r"(?:UTC|GMT)? ?([+-])0?([0-9]{1,2})(?::?([0-9]{2}))?", re.IGNORECASE)
_ABBREVIATION = re.compile(r"[A-Z]{2,5}")
"""Abbreviations that look alike are hours apart: CEST is not close to EST."""
# Not names of places: they mean something else on every machine, or count leap seconds.
_NOT_ZONES = ("localtime", "posixrules", "Factory", "right/", "posix/")


# Errors that temporarily keep a process from reading any file. Other errors are about the name: that of a folder, or
# too long.
_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.EAGAIN, errno.ESTALE})

_PROBE = timedelta(hours=6)
"""Two clock changes are further apart than this."""


class Change(NamedTuple):
    """A clock change at `at`: where the clock would have shown `before`, it shows `after`."""

    at: datetime
    before: datetime
    after: datetime

    @property
    def length(self) -> timedelta:
        return self.after - self.before

    def swallows(self, day: date) -> bool:
        """Whether no moment of this day exists."""
        return self.before <= datetime.combine(day, time()) and self.after >= datetime.combine(day, time()) + DAY


def zone_name(zone: object) -> object:
    """The name of a `ZoneInfo`, and of `datetime.UTC`; other values as they are."""
    if zone is UTC:
        return "UTC"
    return zone.key if isinstance(zone, ZoneInfo) else zone


def check_zone(zone: object) -> str:
    """A name from the time zone database."""
    zone = zone_name(zone)
    if isinstance(zone, str):
        try:
            zone_named(zone)
        except UnknownHere:
            pass
        except OSError as error:
            raise Overloaded(f"the time zone database cannot be read at the moment: {error}", field="tz") from error
        else:
            return zone
    shown = str(zone)[:60]
    remedy = _remedy(shown) if isinstance(zone, str) else "a name such as Europe/Berlin, or a ZoneInfo"
    raise InvalidInput(f"{shown!r} is not a time zone", field="tz", remedy=remedy)


def _remedy(name: str) -> str:
    """What to write instead. An offset is not close to any name, and the names with an offset have the opposite
    sign."""
    if (offset := _OFFSET.fullmatch(name)) is not None:
        hours, minutes = int(offset[2]), int(offset[3] or 0)
        if minutes or not 1 <= hours <= (14 if offset[1] == "+" else 12):
            return "a name such as Asia/Kolkata: only a name determines when the clocks change"
        named = f"Etc/GMT{'-' if offset[1] == '+' else '+'}{hours}"
        side = "ahead of" if offset[1] == "+" else "behind"
        return f"a name such as Europe/Berlin; or {named}, which is always {hours} h {side} UTC"
    near = search_budget.search(_nearest, name)
    return "a name such as Europe/Berlin" if near is None else f"did you mean {near}?"


@lru_cache(maxsize=1024)
def zone_named(name: str) -> ZoneInfo:
    """Raises `UnknownHere`, or `OSError` when this process temporarily cannot read files."""
    if not name.startswith(_NOT_ZONES):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError):
            pass
        except OSError as error:
            if error.errno in _EXHAUSTED:
                raise
    raise UnknownHere(f"the time zone {name[:60]!r} is not known here")


@lru_cache(maxsize=1024)
def _nearest(name: str) -> str | None:
    """The zone that was probably meant. A search takes milliseconds, and one misspelling is often repeated in many
    jobs."""
    for each in zone_names():
        if each.casefold() == name.casefold():
            return each
    if _ABBREVIATION.fullmatch(name):
        return None
    return next(iter(get_close_matches(name, zone_names(), n=1, cutoff=0.7)), None)


@cache
def zone_names() -> list[str]:
    """Every name of the time zone database, in order."""
    return sorted(name for name in available_timezones() if not name.startswith(_NOT_ZONES))


def wall_of(moment: datetime, zone: ZoneInfo) -> datetime:
    """What the clock shows; `fold` is 1 when it shows that time for the second time."""
    return moment.astimezone(zone).replace(tzinfo=None)


def reach(wall: datetime, zone: ZoneInfo) -> datetime:
    """The first moment at which the clock shows this time or a later one."""
    first, second = offsets(wall, zone)
    if second > first:
        return _change(wall, first, second, zone).at
    return (wall - first).replace(tzinfo=UTC, fold=0)


def change_at(wall: datetime, zone: ZoneInfo) -> Change | None:
    """The change that makes this wall time missing or ambiguous; None for an ordinary time."""
    first, second = offsets(wall, zone)
    return None if first == second else _change(wall, first, second, zone)


def offsets(wall: datetime, zone: ZoneInfo) -> tuple[timedelta, timedelta]:
    """The offsets of the two readings of a wall time. They are equal for an ordinary time; the second is smaller for a
    time that exists twice, and greater for one that does not exist."""
    first = wall.replace(tzinfo=zone, fold=0).utcoffset()
    second = wall.replace(tzinfo=zone, fold=1).utcoffset()
    assert first is not None and second is not None
    return first, second


def day_exists(day: date, zone: ZoneInfo) -> bool:
    change = change_at(datetime.combine(day, time()), zone)
    return change is None or not change.swallows(day)


def quiet_offset(moment: datetime, zone: ZoneInfo) -> timedelta | None:
    """The only offset of the days around this moment (or wall time), if the clocks do not change on any of them."""
    return _quiet_offset(zone, moment.toordinal() >> 3)


def offset_between(start: datetime, end: datetime, zone: ZoneInfo) -> timedelta | None:
    """The only offset of all days from one moment to another, if the clocks do not change on any of them."""
    first, last = start.toordinal() >> 3, end.toordinal() >> 3
    offset = _quiet_offset(zone, first)
    for week in range(first + 1, last + 1):
        if offset is None or _quiet_offset(zone, week) != offset:
            return None
    return offset


@lru_cache(maxsize=65_536)
def _quiet_offset(zone: ZoneInfo, week: int) -> timedelta | None:
    # Eight days, and two on both sides: a wall time is never further than that from its moment.
    start = datetime.combine(date.fromordinal(max(week << 3, 4)) - 2 * DAY, time(), UTC)
    offset = start.astimezone(zone).utcoffset()
    for step in range(1, 12 * 4 + 1):
        if (start + step * _PROBE).astimezone(zone).utcoffset() != offset:
            return None
    return offset


def _change(wall: datetime, first: timedelta, second: timedelta, zone: ZoneInfo) -> Change:
    # Both readings of the wall time enclose the change, which falls on a whole second.
    whole = wall.replace(microsecond=0, fold=0)
    old, new = sorted((whole - first, whole - second))
    old, new = old.replace(tzinfo=UTC), new.replace(tzinfo=UTC)
    while new - old > SECOND:
        middle = old + (new - old) // 2 // SECOND * SECOND
        if middle.astimezone(zone).utcoffset() == first:
            old = middle
        else:
            new = middle
    naive = new.replace(tzinfo=None)
    return Change(new, naive + first, naive + second)
