"""From what the API shows to what a store would have read back."""

from datetime import datetime
from typing import Any
from uuid import UUID

import msgspec

from duetime.errors import in_stream
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
from duetime.model.structs import struct_like
from duetime.model.target import plain_target
from duetime.spec.shown import read_shown
from duetime.wire.calendars import CalendarView
from duetime.wire.jobs import JobView, Receipt, ScheduleView
from duetime.wire.runs import AttemptView, RunView


def submitted_of(receipt: Receipt) -> Submitted:
    run_id = None if receipt.run_id is None else parse("run", receipt.run_id)
    note = "; ".join(receipt.warnings) or None
    return Submitted(parse("job", receipt.job_id), receipt.next_run, run_id, receipt.created, note, via=receipt.via)


def job_of(tenant_id: int, view: JobView) -> Job:
    """Raises `InStream` for a job that is known by its id only."""
    if view.task is None or view.queue is None or view.priority is None:
        raise in_stream(view.job_id)
    options = read_shown(msgspec.structs.asdict(view))
    return struct_like(
        Job,
        view,
        id=parse("job", view.job_id),
        tenant_id=tenant_id,
        tier=Tier[view.priority],
        schedule=_schedule(view.schedule, view.created_at),
        state=_state(view.status),
        args=json.encode(view.args if view.target is None else plain_target(view.target), field="args"),
        options=options,
        timeout_ms=None if view.timeout is None else round(view.timeout * 1000),
    )


def calendar_of(view: CalendarView) -> Calendar:
    return struct_like(Calendar, view)


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
    """Raises `InStream` for a run that is known by its id only."""
    if view.task is None or view.queue is None or view.priority is None:
        raise in_stream(view.run_id)
    return struct_like(
        Run,
        view,
        id=parse("run", view.run_id),
        job_id=parse("job", view.job_id),
        tenant_id=tenant_id,
        tier=Tier[view.priority],
        state=RunState[view.status],
        fence=0,
        worker_id=_worker(view.worker_id),
        lease_until=None,
        args=json.encode(view.args, field="args"),
        result=None if view.result is None else json.encode(view.result, field="result"),
        failure=_failure(view.failure),
        attempts=tuple(_attempt(attempt) for attempt in view.attempts),
        has_earlier_attempts=False,
        logs=_logs(view.logs),
    )


def _attempt(view: AttemptView) -> Attempt:
    return struct_like(
        Attempt,
        view,
        fence=0,
        state=AttemptState[view.status],
        worker_id=_worker(view.worker_id),
        failure=_failure(view.failure),
        logs=_logs(view.logs),
    )


def _logs(lines: tuple[dict[str, Any], ...]) -> bytes | None:
    return json.encode({"lines": list(lines)}, field="logs") if lines else None


def _worker(worker_id: str | None) -> UUID | None:
    return None if worker_id is None else parse("wrk", worker_id)


def _failure(name: str | None) -> FailureClass | None:
    return None if name is None else FailureClass[name.upper()]
