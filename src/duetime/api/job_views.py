"""Jobs as responses show them."""

from typing import Any, Literal

import msgspec

from duetime.errors import InvalidInput
from duetime.ids import show
from duetime.model import json
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.lists import JobItem, JobStatus
from duetime.model.notification import is_notification, shortened
from duetime.model.schedule import (
    After,
    Cron,
    Every,
    Exclusion,
    Once,
    RRule,
    Schedule,
    UnusableSchedule,
    exact_form,
    explain,
)
from duetime.model.structs import struct_like
from duetime.model.target import AnyTarget, HttpTarget, decode_target, is_target
from duetime.spec.bodies import ExcludeBody
from duetime.spec.shown import shown_options
from duetime.wire.jobs import JobSummary, JobView, Receipt, ScheduleView

_KINDS: dict[type, Literal["once", "cron", "every", "after", "rrule"]] = {
    Once: "once",
    Cron: "cron",
    Every: "every",
    After: "after",
    RRule: "rrule",
}


def receipt(job: NewJob, answer: Submitted, warnings: tuple[str, ...] = ()) -> Receipt:
    once = isinstance(job.schedule, Once)
    run_id = None if answer.run_id is None else show("run", answer.run_id)
    status = JobStatus.PENDING if once else JobStatus.ACTIVE
    if answer.next_run is None and not isinstance(job.schedule, Once | After) and answer.run_id is None:
        status = JobStatus.ENDED
    if job.depends_on is not None and answer.next_run is None:
        status = JobStatus.BLOCKED if answer.note is None else JobStatus.CANCELLED
    if answer.via == "stream":
        status = JobStatus.IN_STREAM
    created = answer.created or (answer.replayed and job.key is None)
    notes = warnings if answer.note is None else (*warnings, answer.note)
    return Receipt(show("job", answer.job_id), status, answer.next_run, run_id, created, answer.via, notes)


def schedule_view(schedule: Schedule, zone: str = "UTC") -> ScheduleView:
    """A schedule as responses show it. One without a time zone is described in the given one."""
    zone = getattr(schedule, "zone", zone)
    try:
        explained = explain(schedule, zone)
    except (UnusableSchedule, InvalidInput, OSError) as error:
        explained = f"cannot be described: {error}"  # one row must not break a whole list
    view = ScheduleView(_KINDS[type(schedule)], exact_form(schedule), explained, zone)
    if isinstance(schedule, Once):
        return view
    return msgspec.structs.replace(
        view,
        words=schedule.said,
        counted_from=schedule.anchor if isinstance(schedule, Every) else None,
        start_at=schedule.start_at,
        end_at=schedule.end_at,
        exclude=None if schedule.exclude is None else _exclude(schedule.exclude),
    )


def _exclude(days: Exclusion) -> ExcludeBody:
    return ExcludeBody(dates=days.dates, weekdays=days.weekdays, calendars=days.calendars, instead=days.instead)


def job_summary(job: JobItem, fires: int | None = None) -> JobSummary:
    return struct_like(JobSummary, job, **_common(job), fires=fires)


def job_view(job: Job, status: JobStatus) -> JobView:
    shut = job.args_problem is not None
    return struct_like(
        JobView,
        job,
        **(shown_options(job) | _common(job)),
        status=status,
        certain=True,
        args={} if shut or is_target(job.task) else json.decode(job.args),
        target=_target(job) if is_target(job.task) and not shut else None,
    )


def _target(job: Job) -> AnyTarget:
    target = decode_target(job.args)
    if isinstance(target, HttpTarget) and is_notification(job.task, job.queue):
        return msgspec.structs.replace(target, url=shortened(target.url))  # its subscription shows the address
    return target


def _common(job: Job | JobItem) -> dict[str, Any]:
    options = job.options
    return {
        "job_id": show("job", job.id),
        "name": options.name,
        "owner": options.owner,
        "priority": job.tier.name,
        "recurring": not isinstance(job.schedule, Once),
        "schedule": schedule_view(job.schedule),
        "key": options.key,
        "tags": options.tags,
        "payload_ref": options.payload_ref,
    }
