"""Jobs, runs and attempts as they are read back, made from the rows of any store."""

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
"""How many attempts of a run are read, the newest ones: a run that snoozes for ever has any number of them."""
_MOST_TOGETHER = 1000


class Fields(Protocol):
    """A row whose columns have names."""

    def __getitem__(self, name: str, /) -> Any: ...


def stored_job(row: Fields, waiting: datetime | None) -> Job:
    """A job in its first home; `waiting` is when its soonest waiting run is due."""
    next_run = planned_for(row)
    if waiting is not None:
        next_run = waiting if next_run is None else min(next_run, waiting)
    return Job(
        row["id"],
        row["tenant_id"],
        row["task"],
        row["queue"],
        tier_of(row["tier"]),
        shown_schedule(row["schedule"]),
        JobState(row["state"]),
        next_run,
        row["args"],
        decode_options(row["options"]),
        row["timeout_ms"],
        row["version"],
        row["created_at"],
        row["problem"] or _problem_here(row),
        row["made"],
        row["missed"],
    )


def planned_for(row: Fields) -> datetime | None:
    """When a job in its first home fires next. One that was set aside keeps its place, and fires at no time."""
    return None if row["problem"] is not None else row["next_fire_at"]


def _problem_here(row: Fields) -> str | None:
    """Why this node passes a job by: what only the node knows that was asked."""
    if JobState(row["state"]) is not JobState.ACTIVE:
        return None
    try:
        schedule = decode_schedule(row["schedule"])
        if not isinstance(schedule, Once):
            policies_of(row["options"])
            schedule.next_after(row["created_at"])
    except UnusableSchedule as error:
        return f"this node leaves it to others: {error}"
    except Exception as error:  # a row that cannot be processed must not keep it from being read
        return f"this node leaves it to others: {type(error).__name__}: {error}"
    return None


def one_off(run: Run, options: bytes | None, timeout_ms: int | None) -> Job:
    """A one-off job that has become its run: the run carries all that is known of it."""
    state = JobState.ACTIVE
    if run.state.is_end:
        state = JobState.CANCELLED if run.state is RunState.CANCELLED else JobState.ENDED
    return Job(
        run.job_id,
        run.tenant_id,
        run.task,
        run.queue,
        run.tier,
        Once(at=run.due_at),
        state,
        None if run.state.is_end or run.state is RunState.RUNNING else run.ready_at,
        run.args,
        decode_options(options),
        timeout_ms,
        1,
        time_of(run.job_id),
    )


def attempts_each(runs: int) -> int:
    """How many attempts of each run are shown when so many runs are read together."""
    return max(10, min(MOST_ATTEMPTS, _MOST_TOGETHER // max(1, runs)))


def live_run(row: Fields, attempts: Sequence[Fields], most: int) -> Run:
    """A run that is not over, with its `most` newest attempts; one more tells that there are earlier ones."""
    claimed = row["worker_id"] is not None
    state = live_state(claimed=claimed, has_lane=row["lane_id"] is not None, attempt=row["attempt"], lost=row["lost"])
    last = attempts[-1] if attempts else None
    return Run(
        row["id"],
        row["job_id"],
        row["tenant_id"],
        row["task"],
        row["queue"],
        tier_of(row["tier"]),
        state,
        row["attempt"],
        row["lost"],
        row["fence"],
        row["due_at"],
        row["ready_at"],
        row["started_at"] if claimed else None,
        None,
        row["worker_id"],
        row["lease_until"],
        row["args"],
        None,
        _failure(last),
        last["error"] if last else None,
        row["progress"],
        row["message"],
        tuple(_attempt(item) for item in attempts[-most:]),
        len(attempts) > most,
        decode_options(row["options"]).replays,
        row["logs"] if claimed else None,
        first_started_at=row["first_started_at"] or (row["started_at"] if claimed else None),
    )


def ended_run(attempts: Sequence[Fields], most: int) -> Run:
    """A run that is over: its last row in history carries its end. Attempts as above."""
    last = attempts[-1]
    return Run(
        last["run_id"],
        last["job_id"],
        last["tenant_id"],
        last["task"],
        last["queue"],
        tier_of(last["tier"]),
        RunState(last["end_state"]),
        last["attempt"],
        last["lost"],
        last["fence"],
        last["due_at"],
        last["ready_at"],
        last["started_at"],
        last["finished_at"],
        last["worker_id"],
        None,
        last["args"] or b"{}",
        last["result"],
        _failure(last),
        last["error"],
        None,
        None,
        tuple(_attempt(item) for item in attempts[-most:] if item["started_at"] is not None),
        len(attempts) > most,
        decode_options(last["options"]).replays,
        first_started_at=last["first_started_at"] or last["started_at"],
    )


def _attempt(row: Fields) -> Attempt:
    return Attempt(
        row["attempt"],
        row["fence"],
        AttemptState(row["attempt_state"]),
        row["worker_id"],
        row["started_at"],
        row["finished_at"],
        _failure(row),
        row["error"],
        row["logs"],
    )


def _failure(row: Fields | None) -> FailureClass | None:
    return None if row is None or row["failure"] is None else FailureClass(row["failure"])
