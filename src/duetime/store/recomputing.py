"""Cursors whose rules have changed: what becomes of each, decided the same way by every store."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import run_id
from duetime.model.calendar import Calendar, dates_of
from duetime.model.firing import scan_time
from duetime.model.job import JobState, decode_options
from duetime.model.recomputing import Moved, after_calendar_change, after_zone_change
from duetime.model.schedule import Once, UnusableSchedule, decode_schedule, encode_schedule
from duetime.store.steering import HELD
from duetime.store.views import Fields

ZONES = "zones"
"""Where the version of the time zone database is kept that cursors were computed with."""
BATCH = 500
NO_DAY_LEFT = "its calendars leave it no day: edit it, or the calendars, and resume it"


class Zones(msgspec.Struct, frozen=True, omit_defaults=True):
    """The time zone database behind the cursors, and how far they have come on the way to another one."""

    version: str | None = None
    towards: str | None = None
    after: UUID = UUID(int=0)

    def heading(self, version: str) -> "Zones":
        return self if self.towards == version else Zones(self.version, version)

    def advanced(self, seen: Sequence[UUID], limit: int) -> "Zones":
        """After a batch; the last one may be short."""
        return Zones(self.towards) if len(seen) < limit else msgspec.structs.replace(self, after=seen[-1])


class Recomputed(NamedTuple):
    """Where a cursor goes."""

    job_id: UUID
    next_fire_at: datetime
    scan_at: datetime
    last_fire_at: datetime | None
    withdrawn: int = 0


class Reheld(NamedTuple):
    """A job whose schedule holds its calendars as they are now."""

    job_id: UUID
    schedule: bytes
    moved: Moved | None
    """None: it has no cursor."""
    withdraws: UUID | None
    """The run that was made ahead for a day that is left out now."""


def decode_zones(body: str | None) -> Zones:
    return Zones() if body is None else msgspec.json.decode(body, type=Zones)


def encode_zones(zones: Zones) -> str:
    return msgspec.json.encode(zones).decode()


def rezoned(row: Fields, now: datetime) -> Recomputed | None:
    """A cursor by the time zone database of today; None if it stands where it should."""
    try:
        schedule = decode_schedule(row["schedule"])
        if row["next_fire_at"] is None or isinstance(schedule, Once) or not schedule.goes_by_zone:
            return None
        next_fire_at = after_zone_change(schedule, row["next_fire_at"], row["last_fire_at"], now)
    except UnusableSchedule:
        return None  # the scanner sets it aside, and says why
    return None if next_fire_at == row["next_fire_at"] else placed_at(row, next_fire_at, row["last_fire_at"])


def reheld(row: Fields, calendars: Sequence[Calendar], now: datetime) -> Reheld | None:
    """A job by its calendars of today; None for one that has no rhythm, or cannot be read."""
    try:
        schedule = decode_schedule(row["schedule"])
        if isinstance(schedule, Once):
            return None
        schedule = schedule.holding(dates_of(schedule.calendars, calendars))
        moved = None
        if row["next_fire_at"] is not None:
            moved = after_calendar_change(schedule, row["next_fire_at"], row["last_fire_at"], now)
    except (UnusableSchedule, InvalidInput):
        return None
    withdraws = run_id(row["id"], row["last_fire_at"]) if moved is not None and moved.withdraws else None
    return Reheld(row["id"], encode_schedule(schedule), moved, withdraws)


def placed_at(row: Fields, next_fire_at: datetime, last_fire_at: datetime | None, withdrawn: int = 0) -> Recomputed:
    """A cursor at its new place; that of a paused job stays out of view."""
    exact = decode_options(row["options"]).is_decided_when_due
    scan_at = HELD if row["state"] == JobState.PAUSED else scan_time(next_fire_at, after=last_fire_at, exact=exact)
    return Recomputed(row["id"], next_fire_at, scan_at, last_fire_at, withdrawn)
