"""Recomputing cursors whose rules have changed: the same for every store."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import run_id
from duetime.model.calendar import Calendar, dates_of
from duetime.model.cursor_moves import Moved, after_calendar_change, after_zone_change
from duetime.model.firing import scan_time
from duetime.model.job import JobState, decode_options
from duetime.model.schedule import Once, UnknownHere, UnusableSchedule, decode_schedule, encode_schedule
from duetime.store.rules.job_control import HELD, in_view_at
from duetime.store.rules.job_rows import Fields

ZONES = "zones"
"""The key of the stored version of the time zone database that cursors were computed with."""
BATCH = 500
_SILENT = timedelta(minutes=2)
"""A node that has not reported for so long is gone: it reports every half minute."""
NO_DAY_LEFT = "its calendars leave it no day: edit it, or the calendars, and resume it"


class Zones(msgspec.Struct, frozen=True, omit_defaults=True):
    """The time zone database behind the cursors, how far they have come on the way to another one, and which databases
    nodes go by.

    A node fires by its own database, so what it fires after the cursors were checked by another one is not checked.
    Therefore nodes report what they go by. A check is in doubt if a node with another database was alive when it began,
    or later. It is repeated when such nodes have been silent for a while, and whenever a node starts. While nodes with
    different databases are alive, neither repeats a check: they would undo each other's work.
    """

    version: str | None = None
    towards: str | None = None
    after: UUID = UUID(int=0)
    since: datetime | None = None
    """When the last check began."""
    seen: dict[str, datetime] = {}
    """When nodes with each version last reported, if that may invalidate the last check."""

    def heading(self, version: str, now: datetime) -> "Zones | None":
        """On the way to this version; None if the cursors are there, or if a live node is taking them elsewhere: two
        nodes that start together with different databases would begin again and again."""
        if self.version == version or self._is_alive(self.towards, now, apart_from=version):
            return None
        if self.towards == version:
            return self
        return msgspec.structs.replace(self, towards=version, after=UUID(int=0), since=now)

    def advanced(self, seen: Sequence[UUID], limit: int) -> "Zones":
        """The state after a batch; the last batch may be short."""
        if len(seen) < limit:
            return msgspec.structs.replace(self, version=self.towards, towards=None, after=UUID(int=0))
        return msgspec.structs.replace(self, after=seen[-1])

    def reported(self, version: str, now: datetime, *, starting: bool) -> tuple["Zones", bool]:
        """A node with this version is alive. Returns whether it must check the cursors."""
        others = {other: at for other, at in self.seen.items() if other != version and self._in_doubt(at)}
        alive = any(self._is_alive(other, now) for other in others)
        due = (starting or not alive) and (self.version != version or bool(others))
        checked = None if due and self.version == version else self.version
        return msgspec.structs.replace(self, version=checked, seen={**others, version: now}), due

    def _is_alive(self, database: str | None, now: datetime, apart_from: str | None = None) -> bool:
        at = None if database is None or database == apart_from else self.seen.get(database)
        return at is not None and now - at < _SILENT

    def _in_doubt(self, at: datetime) -> bool:
        return self.since is None or at > self.since - _SILENT


class Recomputed(NamedTuple):
    """The new position of a cursor."""

    job_id: UUID
    next_fire_at: datetime
    scan_at: datetime
    last_fire_at: datetime | None
    withdrawn: int = 0


class Reheld(NamedTuple):
    """A job whose schedule has the current days of its calendars."""

    job_id: UUID
    schedule: bytes
    moved: Moved | None
    """None: it has no cursor."""
    withdraws: UUID | None
    """The run that was made ahead for a day that is now excluded."""


def decode_zones(body: str | None) -> Zones:
    return Zones() if body is None else msgspec.json.decode(body, type=Zones)


def encode_zones(zones: Zones) -> str:
    return msgspec.json.encode(zones).decode()


def rezoned(row: Fields, now: datetime) -> Recomputed | None:
    """A cursor by the current time zone database; None if it does not move."""
    try:
        schedule = decode_schedule(row["schedule"])
        if row["next_fire_at"] is None or isinstance(schedule, Once) or not schedule.goes_by_zone:
            return None
        next_fire_at = after_zone_change(schedule, row["next_fire_at"], row["last_fire_at"], now)
    except UnusableSchedule:
        return None  # the scanner sets it aside with the reason
    return None if next_fire_at == row["next_fire_at"] else placed_at(row, next_fire_at, row["last_fire_at"], now)


def reheld(row: Fields, calendars: Sequence[Calendar], now: datetime) -> Reheld | None:
    """A job by its calendars of today; None for one that has no rhythm, or cannot be read. Raises `UnknownHere` for one
    that another node may be able to read: it is left to that one."""
    try:
        schedule = decode_schedule(row["schedule"])
        if isinstance(schedule, Once):
            return None
        schedule = schedule.holding(dates_of(schedule.calendars, calendars))
        moved = None
        if row["next_fire_at"] is not None:
            moved = after_calendar_change(schedule, row["next_fire_at"], row["last_fire_at"], now)
    except UnknownHere:
        raise
    except (UnusableSchedule, InvalidInput):
        return None
    withdraws = run_id(row["id"], row["last_fire_at"]) if moved is not None and moved.withdraws else None
    return Reheld(row["id"], encode_schedule(schedule), moved, withdraws)


def stands_at(row: Fields, job: Reheld) -> datetime:
    """Where the cursor of a job goes. One that is left no occurrence keeps its place, and is set aside there: another
    calendar may give it back."""
    assert job.moved is not None
    place: datetime = row["next_fire_at"] if job.withdraws is None else row["last_fire_at"]
    return job.moved.next_fire_at or place


def placed_at(
    row: Fields, next_fire_at: datetime, last_fire_at: datetime | None, now: datetime, withdrawn: int = 0
) -> Recomputed:
    """A cursor at its new position. The cursor of a paused job stays out of view."""
    exact = decode_options(row["options"]).is_decided_when_due
    scan_at = in_view_at(row, scan_time(next_fire_at, after=last_fire_at, exact=exact), now)
    scan_at = HELD if row["state"] == JobState.PAUSED else scan_at
    return Recomputed(row["id"], next_fire_at, scan_at, last_fire_at, withdrawn)
