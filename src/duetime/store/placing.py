"""Placing: where a job that was accepted goes, decided the same way by every store."""

from datetime import datetime
from typing import NamedTuple

from duetime.duration import format_duration
from duetime.model.firing import scan_time
from duetime.model.job import NewJob
from duetime.model.schedule import Every, Once, encode_schedule


class Placed(NamedTuple):
    """A job on the way to its home: as which version, after which fire, and whether it is new."""

    job: NewJob
    version: int = 1
    after: datetime | None = None
    created: bool = True


class FirstFire(NamedTuple):
    """A recurring job's schedule as it is stored, and its first cursor."""

    schedule: bytes
    next_fire_at: datetime
    scan_at: datetime


NO_OCCURRENCE = "this schedule has no occurrence left: nothing was stored"


def first_fire(placed: Placed, now: datetime) -> FirstFire | None:
    """A recurring job's first fire: after `now` and after the last fire that was claimed; None if there is none."""
    schedule = placed.job.schedule
    assert not isinstance(schedule, Once)
    if isinstance(schedule, Every):
        schedule = schedule.anchored(now)
    next_fire_at = schedule.next_after(now if placed.after is None else max(now, placed.after))
    if next_fire_at is None:
        return None
    return FirstFire(encode_schedule(schedule), next_fire_at, scan_time(next_fire_at, after=placed.after))


def past_note(asked: datetime | None, due_at: datetime) -> str | None:
    """What to tell a caller who asked for a time that is over."""
    if asked is None or asked >= due_at:
        return None
    return f"run_at lies {format_duration(due_at - asked)} in the past: it runs now"
