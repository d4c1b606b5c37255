"""From what the API shows to what a store would have read back."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from duetime.ids import parse
from duetime.model import json
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.calendar import Calendar
from duetime.model.failure import FailureClass
from duetime.model.job import Job, JobState, Submitted
from duetime.model.lane import Tier
from duetime.model.lists import JobStatus
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once, Schedule, parse_schedule
from duetime.model.schedule.exclusion import make_exclusion
from duetime.model.target import plain_target
from duetime.spec.shown import read_shown
from duetime.wire.calendars import CalendarView
from duetime.wire.jobs import JobView, Receipt, ScheduleView
from duetime.wire.runs import AttemptView, RunView


def submitted_of(receipt: Receipt) -> Submitted:
    run_id = None if receipt.run_id is None else parse("run", receipt.run_id)
    note = "; ".join(receipt.warnings) or None
    return Submitted(parse("job", receipt.job_id), receipt.next_run, run_id, receipt.created, note)


def job_of(tenant_id: int, view: JobView) -> Job:
    options = read_shown(msgspec.structs.asdict(view))
    return Job(
        id=parse("job", view.job_id),
        tenant_id=tenant_id,
        task=view.task,
        queue=view.queue,
        tier=Tier[view.priority],
        schedule=_schedule(view.schedule, view.created_at),
        state=_state(view.status),
        next_run=view.next_run,
        args=json.encode(view.args if view.target is None else plain_target(view.target), field="args"),
        options=options,
        timeout_ms=None if view.timeout is None else round(view.timeout * 1000),
        version=view.version,
        created_at=view.created_at,
        problem=view.problem,
        made=view.made,
        missed=view.missed,
        args_problem=view.args_problem,
    )


def calendar_of(view: CalendarView) -> Calendar:
    return Calendar(view.name, view.dates, view.version, view.jobs)


def _schedule(view: ScheduleView, created_at: datetime) -> Schedule:
    """The schedule as the store has it, but for the days of its calendars."""
    schedule = parse_schedule(view.exact, zone=view.tz, now=created_at)
    if isinstance(schedule, Once):
        return schedule
    if isinstance(schedule, Every) and view.counted_from is not None:
        schedule = schedule.anchored(view.counted_from)
    exclude = None if view.exclude is None else make_exclusion(**msgspec.structs.asdict(view.exclude))
    bounds: dict[str, Any] = {"start_at": view.start_at, "end_at": view.end_at, "exclude": exclude}
    return msgspec.structs.replace(schedule, said=view.words, **bounds)


def _state(status: JobStatus) -> JobState:
    """The state of a job: a one-off shows its run's, of which each end but CANCELLED ends the job."""
    if status.value in JobState.__members__:
        return JobState[status.value]
    return JobState.ENDED if RunState[status.value].is_end else JobState.ACTIVE


def run_of(tenant_id: int, view: RunView) -> Run:
    return Run(
        id=parse("run", view.run_id),
        job_id=parse("job", view.job_id),
        tenant_id=tenant_id,
        task=view.task,
        queue=view.queue,
        tier=Tier[view.priority],
        state=RunState[view.status],
        attempt=view.attempt,
        lost=view.lost,
        fence=0,
        due_at=view.due_at,
        ready_at=view.ready_at,
        started_at=view.started_at,
        finished_at=view.finished_at,
        worker_id=_worker(view.worker_id),
        lease_until=None,
        args=json.encode(view.args, field="args"),
        result=None if view.result is None else json.encode(view.result, field="result"),
        failure=_failure(view.failure),
        error=view.error,
        progress=view.progress,
        message=view.message,
        attempts=tuple(_attempt(attempt) for attempt in view.attempts),
        replays=view.replays,
        logs=_logs(view.logs),
        args_problem=view.args_problem,
        first_started_at=view.first_started_at,
    )


def _attempt(view: AttemptView) -> Attempt:
    return Attempt(
        attempt=view.attempt,
        fence=0,
        state=AttemptState[view.status],
        worker_id=_worker(view.worker_id),
        started_at=view.started_at,
        finished_at=view.finished_at,
        failure=_failure(view.failure),
        error=view.error,
        logs=_logs(view.logs),
    )


def _logs(lines: tuple[dict[str, Any], ...]) -> bytes | None:
    return json.encode({"lines": list(lines)}, field="logs") if lines else None


def _worker(worker_id: str | None) -> UUID | None:
    return None if worker_id is None else parse("wrk", worker_id)


def _failure(name: str | None) -> FailureClass | None:
    return None if name is None else FailureClass[name.upper()]
