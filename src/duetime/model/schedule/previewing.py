"""What a schedule will do: its next fires, in local time and UTC, and what clock changes make of them."""

from datetime import UTC, datetime
from typing import Literal

import msgspec

from duetime.model.schedule.every import Every
from duetime.model.schedule.moment import EARLIEST, MICROSECOND
from duetime.model.schedule.once import Once
from duetime.model.schedule.stored import Recurring, Schedule
from duetime.model.schedule.zone import change_at, wall_of, zone_named

MOST = 1000


class ComingFire(msgspec.Struct, frozen=True):
    """One fire to come."""

    local: datetime
    utc: datetime
    change: Literal["moved", "first", "second"] | None = None
    """What a change of the clocks makes of it: its time does not exist and it runs right after the gap; or its time
    comes twice, and this is the first or the second."""
    note: str | None = None
    """The same for people."""


def preview(schedule: Schedule, zone: str, start: datetime, count: int) -> list[ComingFire]:
    """The next fires from `start` on, shown in `zone`. What is not anchored yet is counted from `start`."""
    if isinstance(schedule, Once):
        due = schedule.at or start + (schedule.delay or 0 * MICROSECOND)
        return [ComingFire(due.astimezone(zone_named(zone)), due.astimezone(UTC))] if due >= start and count else []
    if isinstance(schedule, Every):
        schedule = schedule.anchored(start)
    fires: list[ComingFire] = []
    moment = max(start, EARLIEST) - MICROSECOND
    while len(fires) < min(count, MOST) and (found := schedule.next_after(moment)) is not None:
        fires.append(_coming(schedule, zone, found))
        moment = found
    return fires


def _coming(schedule: Recurring, zone: str, fire: datetime) -> ComingFire:
    place = zone_named(schedule.zone)
    shown, asked = wall_of(fire, place), schedule.asked(fire)
    local, utc = fire.astimezone(zone_named(zone)), fire.astimezone(UTC)
    if asked is None:
        return ComingFire(local, utc)
    if asked != shown:
        return ComingFire(local, utc, "moved", f"{_clock(asked)} does not exist: right after the gap")
    change = change_at(shown, place)
    if change is None or change.length.total_seconds() >= 0:
        return ComingFire(local, utc)
    if shown.fold:
        return ComingFire(local, utc, "second", f"{_clock(shown)} comes twice: the second")
    return ComingFire(local, utc, "first", f"{_clock(shown)} comes twice: the first")


def _clock(wall: datetime) -> str:
    return wall.time().isoformat("seconds" if wall.second else "minutes")
