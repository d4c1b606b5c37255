"""Jobs, runs and attempts from the rows of either store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Protocol

from duetime.ids import time_of
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.failure import FailureClass
from duetime.model.firing import policies_of
from duetime.model.job import Job, JobState, decode_options
from duetime.model.lane import tier_of
from duetime.model.run import RunState, live_state
from duetime.model.schedule import Once, UnusableSchedule, decode_schedule, shown_schedule

MOST_ATTEMPTS = 100
"""How many attempts of a run are read, newest first: a run can snooze any number of times."""
_MOST_TOGETHER = 1000


class Fields(Protocol):
    """A row with named columns."""

    def __getitem__(self, name: str, /) -> Any: ...


def stored_job(row: Fields, waiting: datetime | None) -> Job:
    """A job in the table `jobs`; `waiting` is when its earliest waiting run is due."""
    next_run = planned_for(row)
    if waiting is not None:
        next_run = waiting if next_run is None else min(next_run, waiting)
    return Job(
        id=row["id"],
        tenant_id=row["tenant_id"],
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        schedule=shown_schedule(row["schedule"]),
        state=JobState(row["state"]),
        next_run=next_run,
        args=row["args"],
        options=decode_options(row["options"]),
        timeout_ms=row["timeout_ms"],
        version=row["version"],
        created_at=row["created_at"],
        problem=row["problem"] or _problem_here(row),
        made=row["made"],
        missed=row["missed"],
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
    return Job(
        id=run.job_id,
        tenant_id=run.tenant_id,
        task=run.task,
        queue=run.queue,
        tier=run.tier,
        schedule=Once(at=run.due_at),
        state=state,
        next_run=None if run.state.is_end or run.state is RunState.RUNNING else run.ready_at,
        args=run.args,
        options=decode_options(options),
        timeout_ms=timeout_ms,
        version=1,
        created_at=time_of(run.job_id),
    )


def attempts_each(runs: int) -> int:
    """How many attempts of each run are read when so many runs are read together."""
    return max(10, min(MOST_ATTEMPTS, _MOST_TOGETHER // max(1, runs)))


def live_run(row: Fields, attempts: Sequence[Fields], most: int) -> Run:
    """A run that has not ended, with its `most` newest attempts. One more row shows that there are earlier ones."""
    claimed = row["worker_id"] is not None
    state = live_state(claimed=claimed, has_lane=row["lane_id"] is not None, attempt=row["attempt"], lost=row["lost"])
    last = attempts[-1] if attempts else None
    return Run(
        id=row["id"],
        job_id=row["job_id"],
        tenant_id=row["tenant_id"],
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        state=state,
        attempt=row["attempt"],
        lost=row["lost"],
        fence=row["fence"],
        due_at=row["due_at"],
        ready_at=row["ready_at"],
        started_at=row["started_at"] if claimed else None,
        finished_at=None,
        worker_id=row["worker_id"],
        lease_until=row["lease_until"],
        args=row["args"],
        result=None,
        failure=_failure(last),
        error=last["error"] if last else None,
        progress=row["progress"],
        message=row["message"],
        attempts=tuple(_attempt(item) for item in attempts[-most:]),
        has_earlier_attempts=len(attempts) > most,
        replays=decode_options(row["options"]).replays,
        logs=row["logs"] if claimed else None,
        first_started_at=row["first_started_at"] or (row["started_at"] if claimed else None),
    )


def ended_run(attempts: Sequence[Fields], most: int) -> Run:
    """A run that has ended: its last row in history has its end. Attempts as above."""
    last = attempts[-1]
    return Run(
        id=last["run_id"],
        job_id=last["job_id"],
        tenant_id=last["tenant_id"],
        task=last["task"],
        queue=last["queue"],
        tier=tier_of(last["tier"]),
        state=RunState(last["end_state"]),
        attempt=last["attempt"],
        lost=last["lost"],
        fence=last["fence"],
        due_at=last["due_at"],
        ready_at=last["ready_at"],
        started_at=last["started_at"],
        finished_at=last["finished_at"],
        worker_id=last["worker_id"],
        lease_until=None,
        args=last["args"] or b"{}",
        result=last["result"],
        failure=_failure(last),
        error=last["error"],
        progress=None,
        message=None,
        attempts=tuple(_attempt(item) for item in attempts[-most:] if _was_tried(item)),
        has_earlier_attempts=len(attempts) > most,
        replays=decode_options(last["options"]).replays,
        first_started_at=last["first_started_at"] or last["started_at"],
    )


def _was_tried(row: Fields) -> bool:
    """Not a run that ended while it waited. The start of a carried run whose worker died is not known."""
    return row["started_at"] is not None or row["attempt_state"] == AttemptState.LOST


def _attempt(row: Fields) -> Attempt:
    return Attempt(
        attempt=row["attempt"],
        fence=row["fence"],
        state=AttemptState(row["attempt_state"]),
        worker_id=row["worker_id"],
        started_at=row["started_at"],
        finished_at=row["finished_at"],
        failure=_failure(row),
        error=row["error"],
        logs=row["logs"],
    )


def _failure(row: Fields | None) -> FailureClass | None:
    return None if row is None or row["failure"] is None else FailureClass(row["failure"])
