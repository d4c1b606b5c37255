"""Where an accepted job is stored: the same for every store."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from duetime.duration import format_duration
from duetime.errors import InvalidInput
from duetime.model.calendar import Calendar, dates_of
from duetime.model.firing import scan_time
from duetime.model.job import NewJob, decode_options, schedule_seed
from duetime.model.schedule import Once, Schedule, encode_schedule


class Placed(NamedTuple):
    """A job to store: its version, and whether it is new."""

    job: NewJob
    version: int = 1
    created: bool = True


class FirstFire(NamedTuple):
    """The stored schedule of a recurring job, and its first cursor."""

    schedule: bytes
    next_fire_at: datetime
    scan_at: datetime
    exact: bool
    """Decided when it is due: never fired ahead."""


NO_OCCURRENCE = "this schedule has no occurrence left: nothing was stored"


def calendars_of(job: NewJob) -> tuple[str, ...]:
    """The calendars whose days a job excludes."""
    return () if isinstance(job.schedule, Once) else job.schedule.calendars


def leaves_out_days(schedule: Schedule) -> bool:
    """Whether to compute its next fire on another thread: with ten thousand days of calendars that takes long."""
    return not isinstance(schedule, Once) and schedule.exclude is not None


def first_fire(placed: Placed, now: datetime, calendars: Sequence[Calendar] = ()) -> FirstFire | None:
    """A recurring job's first fire after `now`; None if there is none: such a job must not replace another one."""
    schedule = placed.job.schedule
    assert not isinstance(schedule, Once)
    schedule = schedule.holding(dates_of(schedule.calendars, calendars))
    schedule = schedule.settled(now, schedule_seed(placed.job.key, placed.job.id))
    next_fire_at = schedule.next_after(now)
    if next_fire_at is None:
        if not placed.created:
            raise no_occurrence_left()
        return None
    exact = decode_options(placed.job.options).is_decided_when_due
    scan_at = scan_time(next_fire_at, exact=exact)
    return FirstFire(encode_schedule(schedule), next_fire_at, scan_at, exact)


def no_occurrence_left() -> InvalidInput:
    remedy = "change its time or its end_at, or cancel the job"
    return InvalidInput("has no occurrence left: nothing was changed", field="schedule", remedy=remedy)


def past_note(asked: datetime | None, due_at: datetime) -> str | None:
    """The note for a caller whose `run_at` is in the past."""
    if asked is None or asked >= due_at:
        return None
    return f"run_at is {format_duration(due_at - asked)} in the past: it runs now"
