"""Jobs, runs and attempts from the rows of either store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from msgspec import Struct

from duetime.ids import time_of
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.failure import FailureClass
from duetime.model.firing import policies_of
from duetime.model.job import Job, JobState, decode_options
from duetime.model.lane import tier_of
from duetime.model.run import RunState, live_state
from duetime.model.schedule import Once, UnusableSchedule, decode_schedule, shown_schedule
from duetime.model.structs import struct_like

S = TypeVar("S", bound=Struct)
MOST_ATTEMPTS = 100
"""How many attempts of a run are read, newest first: a run can snooze any number of times."""
_MOST_TOGETHER = 1000


class Fields(Protocol):
    """A row with named columns."""

    def __getitem__(self, name: str, /) -> Any: ...


def from_row(kind: type[S], row: Fields, /, **given: Any) -> S:
    """A struct of this kind: the given fields, and all others from the columns of the same names."""
    return kind(**given, **{name: row[name] for name in kind.__struct_fields__ if name not in given})


def stored_job(row: Fields, waiting: datetime | None) -> Job:
    """A job in the table `jobs`; `waiting` is when its earliest waiting run is due."""
    next_run = planned_for(row)
    if waiting is not None:
        next_run = waiting if next_run is None else min(next_run, waiting)
    return from_row(
        Job,
        row,
        tier=tier_of(row["tier"]),
        schedule=shown_schedule(row["schedule"]),
        state=JobState(row["state"]),
        next_run=next_run,
        options=decode_options(row["options"]),
        problem=row["problem"] or _problem_here(row),
        args_problem=None,
    )


def planned_for(row: Fields) -> datetime | None:
    """When a job in the table `jobs` fires next. A job that was set aside keeps its cursor, and does not fire."""
    return None if row["problem"] is not None else row["next_fire_at"]


def _problem_here(row: Fields) -> str | None:
    """Why this node cannot process a job. Only the node that answers the request knows it."""
    if JobState(row["state"]) is not JobState.ACTIVE:
        return None
    try:
        schedule = decode_schedule(row["schedule"])
        if not isinstance(schedule, Once):
            policies_of(row["options"])
            schedule.next_after(row["created_at"])
    except UnusableSchedule as error:
        return f"this node leaves it to other nodes: {error}"
    except Exception as error:  # a job that cannot be processed must be readable
        return f"this node leaves it to other nodes: {type(error).__name__}: {error}"
    return None


def one_off(run: Run, options: bytes | None, timeout_ms: int | None) -> Job:
    """A one-off job that has become its run, which has all its data."""
    state = JobState.ACTIVE
    if run.state.is_end:
        state = JobState.CANCELLED if run.state is RunState.CANCELLED else JobState.ENDED
    return struct_like(
        Job,
        run,
        id=run.job_id,
        schedule=Once(at=run.due_at),
        state=state,
        next_run=None if run.state.is_end or run.state is RunState.RUNNING else run.ready_at,
        options=decode_options(options),
        timeout_ms=timeout_ms,
        version=1,
        created_at=time_of(run.job_id),
        problem=None,
        made=0,
        missed=0,
        args_problem=None,
    )


def attempts_each(runs: int) -> int:
    """How many attempts of each run are read when so many runs are read together."""
    return max(10, min(MOST_ATTEMPTS, _MOST_TOGETHER // max(1, runs)))


def live_run(row: Fields, attempts: Sequence[Fields], most: int) -> Run:
    """A run that has not ended, with its `most` newest attempts. One more row shows that there are earlier ones."""
    claimed = row["worker_id"] is not None
    state = live_state(claimed=claimed, has_lane=row["lane_id"] is not None, attempt=row["attempt"], lost=row["lost"])
    last = attempts[-1] if attempts else None
    return from_row(
        Run,
        row,
        archived=False,
        tier=tier_of(row["tier"]),
        state=state,
        started_at=row["started_at"] if claimed else None,
        finished_at=None,
        result=None,
        failure=failure_of(last),
        error=last["error"] if last else None,
        attempts=tuple(_attempt(item) for item in attempts[-most:]),
        has_earlier_attempts=len(attempts) > most,
        replays=decode_options(row["options"]).replays,
        logs=row["logs"] if claimed else None,
        args_problem=None,
        first_started_at=row["first_started_at"] or (row["started_at"] if claimed else None),
    )


def ended_run(attempts: Sequence[Fields], most: int) -> Run:
    """A run that has ended: its last row in history has its end. Attempts as above."""
    last = attempts[-1]
    return from_row(
        Run,
        last,
        archived=False,
        id=last["run_id"],
        tier=tier_of(last["tier"]),
        state=RunState(last["end_state"]),
        lease_until=None,
        args=last["args"] or b"{}",
        failure=failure_of(last),
        progress=None,
        message=None,
        attempts=tuple(_attempt(item) for item in attempts[-most:] if _was_tried(item)),
        has_earlier_attempts=len(attempts) > most,
        replays=decode_options(last["options"]).replays,
        logs=None,
        args_problem=None,
        first_started_at=last["first_started_at"] or last["started_at"],
    )


def _was_tried(row: Fields) -> bool:
    """Not a run that ended while it waited. The start of a carried run whose worker died is not known."""
    return row["started_at"] is not None or row["attempt_state"] == AttemptState.LOST


def _attempt(row: Fields) -> Attempt:
    return from_row(Attempt, row, state=AttemptState(row["attempt_state"]), failure=failure_of(row))


def failure_of(row: Fields | None) -> FailureClass | None:
    return None if row is None or row["failure"] is None else FailureClass(row["failure"])
