"""What pausing, resuming, triggering and backfilling do to a stored job: the same for every store."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from duetime.errors import Conflict, NotFound
from duetime.ids import run_id, show, time_of
from duetime.model.firing import Backfill, PlannedRun, scan_time
from duetime.model.job import JobState, decode_options
from duetime.model.schedule import After, Once, Recurring, Schedule, UnusableSchedule, decode_schedule
from duetime.model.withdrawn_runs import Withdrawn, encode_owed
from duetime.store.rules.job_rows import Fields

HELD = datetime(9999, 1, 1, tzinfo=UTC)
"""The `scan_at` of a paused cursor: never in view until its job is resumed."""
MISSED_BY_PAUSE = "missed: its job was paused"
"""The reason for a withdrawn run of a job that runs after another: missed ends are not made up for."""


_MOMENT = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)


class Cursor(NamedTuple):
    next_fire_at: datetime
    scan_at: datetime
    exact: bool


def check_steerable(row: Fields | None, job_id: UUID, *, has_runs: bool, has_ended: bool) -> Fields:
    """A job can be controlled until it has ended. A one-off whose run exists cannot: only its run is left."""
    if row is None:
        if has_runs:
            raise Conflict(
                f"{show('job', job_id)} is due: its run already exists", remedy="cancel it, or wait for its end"
            )
        if has_ended:
            raise Conflict(f"{show('job', job_id)} has ended", remedy="retry its run, or submit it again")
        raise NotFound(f"there is no job {show('job', job_id)}")
    if row["state"] >= JobState.ENDED:
        raise Conflict(f"{show('job', job_id)} has ended", remedy="submit it again")
    return row


def last_occurrence(job_id: UUID, row: Fields) -> UUID | None:
    """The run of the last fired occurrence: the only run that may have been made ahead."""
    return None if row["last_fire_at"] is None else run_id(job_id, row["last_fire_at"])


class Held(NamedTuple):
    """A paused cursor."""

    next_fire_at: datetime
    last_fire_at: datetime | None
    owed: bytes | None


def held_cursor(job_id: UUID, row: Fields, withdrawn: Sequence[Withdrawn]) -> Held | None:
    """The position of a paused cursor after these runs were withdrawn. Each of them is owed again: the last fire
    because the cursor goes back to it (later fires may change with a calendar or an edit), and the others one by one.
    So is the last one if a worker has held it: it must keep its fence. None for a job without a cursor."""
    if row["next_fire_at"] is None:
        return None
    next_fire_at, last, ahead = row["next_fire_at"], row["last_fire_at"], last_occurrence(job_id, row)
    one_by_one = [run for run in withdrawn if run.run_id != ahead or run.fence]
    if len(one_by_one) < len(withdrawn):
        next_fire_at, last = last, _fire_before(row, last)
    return Held(next_fire_at, last, encode_owed(row["owed"], one_by_one))


def _fire_before(row: Fields, fire: datetime) -> datetime | None:
    try:
        schedule = decode_schedule(row["schedule"])
        return None if isinstance(schedule, Once) else schedule.latest_until(fire - _MOMENT)
    except (UnusableSchedule, OSError):
        return None


def cursor_after_pause(row: Fields, newest: Iterable[UUID], now: datetime) -> Cursor | None:
    """The cursor of a resumed job: where it was paused, so that the misfire policy decides about everything from there
    on. A cursor whose schedule had no occurrence left goes to the next one that it has now. A lost cursor starts after
    `newest`, the newest runs of the job: the clock may have been set back since. None for a job that runs after
    another: it has no cursor."""
    exact = decode_options(row["options"]).is_decided_when_due
    next_fire_at = row["next_fire_at"]
    if next_fire_at is None or row["problem"] is not None:
        schedule = _read(row)
        if isinstance(schedule, After):
            return None
        if isinstance(schedule, Once):
            next_fire_at = next_fire_at or now
        else:
            from_here = max([now, *(end_of(run) for run in newest)]) if next_fire_at is None else next_fire_at - _MOMENT
            next_fire_at = _next_after(schedule, from_here)
    return Cursor(next_fire_at, in_view_at(row, scan_time(next_fire_at, exact=exact), now), exact)


def in_view_at(row: Fields, scan_at: datetime, now: datetime) -> datetime:
    """When the cursor of an active job comes into view: now if earlier occurrences are owed."""
    return scan_at if row["owed"] is None else min(scan_at, now)


def end_of(run: UUID) -> datetime:
    """The latest possible moment of a run's occurrence."""
    return time_of(run) + _MILLISECOND - _MOMENT


def _next_after(schedule: Recurring, moment: datetime) -> datetime:
    try:
        found = schedule.next_after(moment)
    except UnusableSchedule as error:
        raise Conflict(str(error), remedy="edit it first") from None
    if found is None:
        raise Conflict("its schedule has no occurrence left", remedy="edit it first")
    return found


def _read(row: Fields) -> Schedule:
    try:
        return decode_schedule(row["schedule"])
    except UnusableSchedule as error:
        raise Conflict(str(error), remedy="edit it first") from None


def manual_run(job_id: UUID, now: datetime, nonce: bytes) -> PlannedRun:
    """An extra run. The nonce makes its id different from that of an occurrence."""
    return PlannedRun(run_id(job_id, now, nonce), now)


def backfilled(job_id: UUID, backfill: Backfill, now: datetime, nonce: bytes) -> list[tuple[UUID, datetime, datetime]]:
    """The runs of a past range: each due at its own time, and ready one after the other at the given rate a second.
    Future occurrences are omitted: they would run early, and again at their time."""
    pause = timedelta(seconds=1 / backfill.rate)
    past = [fire for fire in backfill.fires if fire <= now]
    return [(run_id(job_id, fire, nonce), fire, now + place * pause) for place, fire in enumerate(past)]
