"""Previews a schedule: its next fires, in local time and UTC, and the effects of clock changes."""

from datetime import UTC, datetime

import msgspec

from duetime.model.schedule.after import After
from duetime.model.schedule.clock_note import ClockChange, clock_note, once_note
from duetime.model.schedule.moment import EARLIEST, MICROSECOND
from duetime.model.schedule.once import Once
from duetime.model.schedule.stored import Recurring, Schedule
from duetime.model.schedule.zone import zone_named

MOST = 1000


class ComingFire(msgspec.Struct, frozen=True):
    """One future fire."""

    local: datetime
    utc: datetime
    change: ClockChange | None = None
    """The effect of a clock change on it: its time does not exist and it runs right after the gap; or its time comes
    twice, and this is the first or the second."""
    note: str | None = None
    """The same for people."""


def preview(schedule: Schedule, zone: str, start: datetime, count: int) -> list[ComingFire]:
    """The next fires from `start` on, shown in `zone`. An interval without an anchor is counted from `start`."""
    if isinstance(schedule, Once):
        due = schedule.at or start + (schedule.delay or 0 * MICROSECOND)
        return [_coming_fire(due, zone, once_note(schedule))] if due >= start and count else []
    schedule = schedule.settled(start, "")
    fires: list[ComingFire] = []
    moment = max(start, EARLIEST) - MICROSECOND
    while len(fires) < min(count, MOST) and (found := schedule.next_after(moment)) is not None:
        fires.append(_coming(schedule, zone, found))
        moment = found
    return fires


def _coming(schedule: Recurring, zone: str, fire: datetime) -> ComingFire:
    asked = schedule.asked(fire)
    return _coming_fire(fire, zone, None if asked is None else clock_note(asked, fire, schedule.zone))


def _coming_fire(fire: datetime, zone: str, note: tuple[ClockChange, str] | None) -> ComingFire:
    change, text = (None, None) if note is None else note
    return ComingFire(fire.astimezone(zone_named(zone)), fire.astimezone(UTC), change, text)


def why_nothing(schedule: Schedule, start: datetime) -> str:
    """Why a schedule has no fires from `start` on."""
    if isinstance(schedule, Once):
        return "that time has passed"
    if isinstance(schedule, After):
        return "it has no times of its own: it runs after another job"
    schedule, moment = schedule.settled(start, ""), max(start, EARLIEST) - MICROSECOND
    if schedule.exclude is not None:
        schedule = msgspec.structs.replace(schedule, exclude=None)
        if schedule.next_after(moment) is not None:
            return "every time that it names falls on an excluded day"
    if schedule.end_at is not None:
        schedule = msgspec.structs.replace(schedule, end_at=None)
        if schedule.next_after(moment) is not None:
            return "end_at is before its next time"
    last = schedule.latest_until(moment)
    return "no time is left" if last is None else f"no time is left: the last was {last.isoformat(' ', 'seconds')}"
