"""List items from the rows of either store."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from duetime.ids import time_of
from duetime.model.attempt import Run
from duetime.model.failure import FailureClass
from duetime.model.job import Job, JobState, decode_options
from duetime.model.lane import tier_of
from duetime.model.lists import (
    DeadGroup,
    DeadLetter,
    JobItem,
    JobReport,
    JobStatus,
    RunEnd,
    RunItem,
    status_of_job,
    status_of_run,
)
from duetime.model.run import RunState, live_state
from duetime.model.schedule import Once, shown_schedule
from duetime.store.shared.job_rows import Fields, planned_for

_ERROR_SHOWN = 500


def stored_job_item(row: Fields) -> JobItem:
    recurring = bool(row["recurring"])
    moments = [moment for moment in (planned_for(row), row["waiting"]) if moment is not None]
    return JobItem(
        id=row["id"],
        tenant_id=row["tenant_id"],
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        status=status_of_job(JobState(row["state"]), recurring=recurring),
        recurring=recurring,
        schedule=shown_schedule(row["schedule"]),
        next_run=min(moments, default=None),
        options=decode_options(row["options"]),
        version=row["version"],
        created_at=row["created_at"],
        problem=row["problem"],
    )


def live_job_item(row: Fields, tenant_id: int) -> JobItem:
    state = _live(row)
    return _one_off(row, tenant_id, row["job_id"], status_of_run(state), _next(state, row["ready_at"]))


def ended_job_item(row: Fields, tenant_id: int) -> JobItem:
    return _one_off(row, tenant_id, row["job_id"], status_of_run(RunState(row["end_state"])), None)


def _one_off(row: Fields, tenant_id: int, job_id: UUID, status: JobStatus, next_run: datetime | None) -> JobItem:
    return JobItem(
        id=job_id,
        tenant_id=tenant_id,
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        status=status,
        recurring=False,
        schedule=Once(at=row["due_at"]),
        next_run=next_run,
        options=decode_options(row["options"]),
        version=1,
        created_at=time_of(job_id),
    )


def live_run_item(row: Fields) -> RunItem:
    state = _live(row)
    started_at = row["started_at"] if state is RunState.RUNNING else None
    return _run(row, state, started_at, None, None, None)


def ended_run_item(row: Fields) -> RunItem:
    failure = None if row["failure"] is None else FailureClass(row["failure"])
    return _run(row, RunState(row["end_state"]), row["started_at"], row["finished_at"], failure, row["error"])


def _run(
    row: Fields,
    state: RunState,
    started_at: datetime | None,
    finished_at: datetime | None,
    failure: FailureClass | None,
    error: str | None,
) -> RunItem:
    return RunItem(
        id=row["id"],
        job_id=row["job_id"],
        tenant_id=row["tenant_id"],
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        state=state,
        attempt=row["attempt"],
        lost=row["lost"],
        due_at=row["due_at"],
        ready_at=row["ready_at"],
        started_at=started_at,
        finished_at=finished_at,
        worker_id=row["worker_id"],
        failure=failure,
        error=error,
        replays=decode_options(row["options"]).replays,
        first_started_at=row["first_started_at"] or started_at,
    )


def run_end(row: Fields) -> RunEnd:
    return RunEnd(row["run_id"], RunState(row["end_state"]), row["due_at"], row["started_at"], row["finished_at"])


def dead_letter(row: Fields) -> DeadLetter:
    return DeadLetter(
        run_id=row["run_id"],
        job_id=row["job_id"],
        tenant_id=row["tenant_id"],
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        attempt=row["attempt"],
        lost=row["lost"],
        failure=None if row["failure"] is None else FailureClass(row["failure"]),
        error=row["error"],
        due_at=row["due_at"],
        died_at=row["died_at"],
        options=decode_options(row["options"]),
        fingerprint=row["fingerprint"],
    )


def dead_group(row: Fields) -> DeadGroup:
    return DeadGroup(
        fingerprint=row["fingerprint"],
        count=row["size"],
        failure=None if row["failure"] is None else FailureClass(row["failure"]),
        error=row["error"],
        tasks=tuple(sorted(row["tasks"])),
        first_died_at=row["first_died_at"],
        last_died_at=row["died_at"],
        newest_run=row["run_id"],
    )


def report(job: Job, recurring: bool | None, runs: Sequence[tuple[Run, bytes | None, int | None]]) -> JobReport:
    """The status of a job. `recurring` is None for a job that has left the table `jobs`; `runs` are newest first."""
    started = (item for item in runs if item[0].state is RunState.RUNNING or item[0].attempt or item[0].lost)
    last, options, _ = next(started, None) or next((item for item in runs if item[0].state.is_end), (None, None, None))
    if recurring is None and runs:
        status = status_of_run(runs[0][0].state)
    else:
        status = status_of_job(job.state, recurring=bool(recurring))
    return JobReport(
        job.id,
        status,
        None if last is None else _item_of(last, options),
        job.next_run,
        0 if last is None else last.attempt + last.lost,
        0 if last is None else max(0, last.attempt + last.lost - (last.state is not RunState.RETRYING)),
        None if last is None else last.error,
    )


def _item_of(run: Run, options: bytes | None) -> RunItem:
    return RunItem(
        id=run.id,
        job_id=run.job_id,
        tenant_id=run.tenant_id,
        task=run.task,
        queue=run.queue,
        tier=run.tier,
        state=run.state,
        attempt=run.attempt,
        lost=run.lost,
        due_at=run.due_at,
        ready_at=run.ready_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        worker_id=run.worker_id,
        failure=run.failure,
        error=None if run.error is None else run.error[:_ERROR_SHOWN],
        replays=decode_options(options).replays,
        first_started_at=run.first_started_at,
    )


def _live(row: Fields) -> RunState:
    return live_state(
        claimed=row["worker_id"] is not None,
        has_lane=row["lane_id"] is not None,
        attempt=row["attempt"],
        lost=row["lost"],
    )


def _next(state: RunState, ready_at: datetime) -> datetime | None:
    return None if state is RunState.RUNNING else ready_at
