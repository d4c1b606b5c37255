"""Steering a stored job: what pausing, resuming, triggering and backfilling do, decided the same way by every store."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from duetime.errors import Conflict, NotFound
from duetime.ids import run_id, show
from duetime.model.firing import PlannedRun, scan_time
from duetime.model.job import JobState, decode_options
from duetime.model.schedule import After, Once, Schedule, UnusableSchedule, decode_schedule
from duetime.store.views import Fields

HELD = datetime(9999, 1, 1, tzinfo=UTC)
"""When a cursor comes into view that is held: not before somebody resumes its job."""


_MOMENT = timedelta(microseconds=1)


class Cursor(NamedTuple):
    next_fire_at: datetime
    scan_at: datetime
    exact: bool


def check_steerable(row: Fields | None, job_id: UUID, *, has_runs: bool, has_ended: bool) -> Fields:
    """A job can be steered while it has a future. One that runs once has none of its own when its run is made: what is
    left of it are runs, live or ended."""
    if row is None:
        if has_runs:
            raise Conflict(
                f"{show('job', job_id)} is due: its run exists already", remedy="cancel it, or wait for its end"
            )
        if has_ended:
            raise Conflict(f"{show('job', job_id)} has ended", remedy="retry its run, or submit it again")
        raise NotFound(f"there is no job {show('job', job_id)}")
    if row["state"] >= JobState.ENDED:
        raise Conflict(f"{show('job', job_id)} has ended", remedy="submit it again")
    return row


def last_occurrence(job_id: UUID, row: Fields) -> UUID | None:
    """The run of the occurrence that was fired last: the only one that may have been made ahead of its time."""
    return None if row["last_fire_at"] is None else run_id(job_id, row["last_fire_at"])


class Held(NamedTuple):
    """A paused cursor."""

    next_fire_at: datetime
    last_fire_at: datetime | None


def held_cursor(row: Fields, withdrawn: int) -> Held | None:
    """What a paused cursor is held at: a fire whose run was taken back is owed again, and the last is the one before.
    None for a job without a cursor."""
    if row["next_fire_at"] is None:
        return None
    last = row["last_fire_at"]
    return Held(last, _fire_before(row, last)) if withdrawn and last else Held(row["next_fire_at"], last)


def _fire_before(row: Fields, fire: datetime) -> datetime | None:
    try:
        schedule = decode_schedule(row["schedule"])
    except UnusableSchedule:
        return None
    return None if isinstance(schedule, Once) else schedule.latest_until(fire - _MOMENT)


def cursor_after_pause(row: Fields, now: datetime) -> Cursor | None:
    """Where the cursor goes when a job is resumed: back to where it was, or to the next fire if it had none left. None
    for a job that runs after another: it has no cursor."""
    exact = decode_options(row["options"]).is_decided_when_due
    next_fire_at = row["next_fire_at"]
    if next_fire_at is None:
        schedule = _read(row)
        if isinstance(schedule, After):
            return None
        found = now if isinstance(schedule, Once) else schedule.next_after(now)
        if found is None:
            raise Conflict("its schedule has no occurrence left", remedy="edit it first")
        next_fire_at = found
    return Cursor(next_fire_at, scan_time(next_fire_at, exact=exact), exact)


def _read(row: Fields) -> Schedule:
    try:
        return decode_schedule(row["schedule"])
    except UnusableSchedule as error:
        raise Conflict(str(error), remedy="edit it first") from None


def manual_run(job_id: UUID, now: datetime, nonce: bytes) -> PlannedRun:
    """An extra run, beside the rhythm: the nonce keeps its id apart from that of an occurrence."""
    return PlannedRun(run_id(job_id, now, nonce), now)


def backfilled(
    job_id: UUID, fires: Sequence[datetime], now: datetime, nonce: bytes, rate: float
) -> list[tuple[UUID, datetime, datetime]]:
    """The runs of a past range: each due at its own time, ready one after the other at the given rate a second. What
    lies ahead is left out: it would run before its time, and once more when the rhythm comes to it."""
    pause = timedelta(seconds=1 / rate)
    past = [fire for fire in fires if fire <= now]
    return [(run_id(job_id, fire, nonce), fire, now + place * pause) for place, fire in enumerate(past)]
