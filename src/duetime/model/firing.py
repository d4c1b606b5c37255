"""Firing: turning a job that is due into a run, and moving its cursor to the next occurrence.

Two rules keep this safe on any number of nodes. A recurring job has at most one run that is not yet due: the cursor is
looked at again no earlier than the fire before it. And the run's id is computed from the occurrence.
"""

from datetime import datetime, timedelta
from uuid import UUID

import msgspec

from duetime.ids import once_run_id, run_id
from duetime.model.lane import LaneKey
from duetime.model.schedule import Once, UnusableSchedule, decode_schedule

LOOK_AHEAD = timedelta(seconds=15)
"""How long before its time a run is made, so that a herd is in place when its second comes."""


class DueJob(msgspec.Struct, frozen=True, gc=False):
    """A cursor that has come into view."""

    job_id: UUID
    lane: LaneKey
    schedule: bytes
    next_fire_at: datetime


class Fire(msgspec.Struct, frozen=True, gc=False):
    """One job's fire: the run to make, and where its cursor goes."""

    job_id: UUID
    run_id: UUID
    lane: LaneKey
    due_at: datetime
    next_fire_at: datetime | None
    """None: there is no further occurrence."""
    scan_at: datetime | None
    recurring: bool


class SetAside(msgspec.Struct, frozen=True):
    """A job that cannot be processed: it is paused with its reason, and the batch goes on."""

    job_id: UUID
    problem: str


def plan_fire(due: DueJob, now: datetime) -> Fire | SetAside:
    """Decide one job's fire. Missed occurrences become one run, due at the latest of them."""
    try:
        schedule = decode_schedule(due.schedule)
        if isinstance(schedule, Once):
            fire_id = once_run_id(due.job_id, due.next_fire_at)
            return Fire(due.job_id, fire_id, due.lane, due.next_fire_at, None, None, recurring=False)
        due_at = due.next_fire_at
        if due_at <= now:
            due_at = max(due_at, schedule.latest_until(now) or due_at)
        following = schedule.next_after(due_at)
    except UnusableSchedule as error:
        return SetAside(due.job_id, str(error))
    except Exception as error:  # a row that cannot be processed must never stop the others
        return SetAside(due.job_id, f"its next fire cannot be computed: {type(error).__name__}: {error}")
    scan = None if following is None else scan_time(following, after=due_at)
    return Fire(due.job_id, run_id(due.job_id, due_at), due.lane, due_at, following, scan, recurring=True)


def scan_time(next_fire_at: datetime, *, after: datetime | None = None) -> datetime:
    """When the scanner shall look at a cursor: ahead of its time, but not before the previous fire is due."""
    ahead = next_fire_at - LOOK_AHEAD
    return ahead if after is None else max(ahead, after)
