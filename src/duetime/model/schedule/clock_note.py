"""The effect of a clock change on one time, for people."""

from datetime import datetime
from typing import Literal

from duetime.model.schedule.once import Once
from duetime.model.schedule.zone import change_at, wall_of, zone_named

ClockChange = Literal["moved", "first", "second"]


def clock_note(asked: datetime, fire: datetime, zone: str) -> tuple[ClockChange, str] | None:
    """For a requested wall time and the moment at which it fires; None for an ordinary time."""
    place = zone_named(zone)
    shown = wall_of(fire, place)
    if asked != shown:
        return "moved", f"{_clock(asked)} does not exist: right after the gap"
    change = change_at(shown, place)
    if change is None or change.length.total_seconds() >= 0:
        return None
    if shown.fold:
        return "second", f"{_clock(shown)} comes twice: the second"
    return "first", f"{_clock(shown)} comes twice: the first"


def once_note(schedule: Once) -> tuple[ClockChange, str] | None:
    """The same for one run."""
    if schedule.at is None or schedule.asked is None or schedule.place is None:
        return None
    return clock_note(schedule.asked, schedule.at, schedule.place)


def _clock(wall: datetime) -> str:
    return wall.time().isoformat("seconds" if wall.second else "minutes")
