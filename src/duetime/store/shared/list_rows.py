"""List items from the rows of either store."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from duetime.ids import time_of
from duetime.model.attempt import Run
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
from duetime.model.structs import struct_like
from duetime.store.rules.job_rows import Fields, failure_of, from_row, planned_for

_ERROR_SHOWN = 500


def stored_job_item(row: Fields) -> JobItem:
    recurring = bool(row["recurring"])
    moments = [moment for moment in (planned_for(row), row["waiting"]) if moment is not None]
    return from_row(
        JobItem,
        row,
        tier=tier_of(row["tier"]),
        status=status_of_job(JobState(row["state"]), recurring=recurring),
        recurring=recurring,
        schedule=shown_schedule(row["schedule"]),
        next_run=min(moments, default=None),
        options=decode_options(row["options"]),
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
    return _run(row, state, started_at, finished_at=None, failure=None, error=None)


def ended_run_item(row: Fields) -> RunItem:
    return _run(row, RunState(row["end_state"]), row["started_at"], failure=failure_of(row))


def _run(row: Fields, state: RunState, started_at: datetime | None, **given: Any) -> RunItem:
    return from_row(
        RunItem,
        row,
        archived=False,
        tier=tier_of(row["tier"]),
        state=state,
        started_at=started_at,
        replays=decode_options(row["options"]).replays,
        first_started_at=row["first_started_at"] or started_at,
        **given,
    )


def archived_run_item(row: Fields) -> RunItem:
    return msgspec.structs.replace(ended_run_item(row), archived=True)


def run_end(row: Fields) -> RunEnd:
    return RunEnd(row["run_id"], RunState(row["end_state"]), row["due_at"], row["started_at"], row["finished_at"])


def dead_letter(row: Fields) -> DeadLetter:
    tier, options = tier_of(row["tier"]), decode_options(row["options"])
    return from_row(DeadLetter, row, tier=tier, failure=failure_of(row), options=options)


def dead_group(row: Fields) -> DeadGroup:
    return from_row(
        DeadGroup,
        row,
        count=row["size"],
        failure=failure_of(row),
        tasks=tuple(sorted(row["tasks"])),
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
    error = None if run.error is None else run.error[:_ERROR_SHOWN]
    return struct_like(RunItem, run, error=error, replays=decode_options(options).replays)


def _live(row: Fields) -> RunState:
    return live_state(
        claimed=row["worker_id"] is not None,
        has_lane=row["lane_id"] is not None,
        attempt=row["attempt"],
        lost=row["lost"],
    )


def _next(state: RunState, ready_at: datetime) -> datetime | None:
    return None if state is RunState.RUNNING else ready_at
