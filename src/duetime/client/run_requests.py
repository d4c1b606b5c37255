"""Requests for runs, dead letters, schedules, calendars, queues, workers and payloads."""

from collections.abc import Iterable, Mapping
from datetime import date, tzinfo
from typing import Any, Unpack

from msgspec import UNSET, UnsetType

from duetime.client.request import Length, Moment, Request, Span, given, job_fields, moment, once, path, plain
from duetime.model.schedule import zone_name
from duetime.wire.breakers import BreakerList, BreakerView
from duetime.wire.calendars import CalendarList, CalendarView
from duetime.wire.demand import DemandView
from duetime.wire.jobs import Deleted
from duetime.wire.runs import DeadLetterGroups, DeadLetterPage, Discarded, ReplayAnswer, RunPage, RunView, WhyView
from duetime.wire.service import PayloadStored, Preview, QueueList, QueueView, TaskDetails, TaskList, WorkerList


class RunsOfJob(Span, total=False):
    status: str | None


class Runs(RunsOfJob, total=False):
    task: str | None
    queue: str | None
    owner: str | None


class DeadLetters(Span, total=False):
    job_id: str | None
    task: str | None
    queue: str | None
    failure: str | None
    error: str | None
    fingerprint: str | None


def list_runs(**wanted: Unpack[Runs]) -> Request[RunPage]:
    """A page of runs, newest first."""
    return Request("GET", "/v1/runs", RunPage, given(**wanted))


def list_runs_of_job(job_id: str, **wanted: Unpack[RunsOfJob]) -> Request[RunPage]:
    """A page of the runs of one job, newest first."""
    return Request("GET", path("/v1/jobs/{}/runs", job_id), RunPage, given(**wanted))


def get_run(run_id: str) -> Request[RunView]:
    """A run with its attempts, logs and result."""
    return Request("GET", path("/v1/runs/{}", run_id), RunView)


def cancel_run(run_id: str) -> Request[RunView]:
    """Cancel a waiting run, or ask a running one to stop."""
    return Request("POST", path("/v1/runs/{}/cancel", run_id), RunView)


def retry_run(run_id: str, *, idempotency_key: str | None = None) -> Request[RunView]:
    """Retry a run: a run that waits for its retry starts now, an ended one gets a new run. A run is repeated once:
    repeated requests return the same new run."""
    return Request("POST", path("/v1/runs/{}/retry", run_id), RunView, headers=once(idempotency_key))


def list_dead_letters(**wanted: Unpack[DeadLetters]) -> Request[DeadLetterPage]:
    """A page of dead letters."""
    return Request("GET", "/v1/dead-letters", DeadLetterPage, given(**wanted))


def group_dead_letters(*, limit: int | None = None) -> Request[DeadLetterGroups]:
    """Dead letters grouped by their error, the largest groups first."""
    return Request("GET", "/v1/dead-letters/groups", DeadLetterGroups, given(limit=limit))


def replay_dead_letters(
    *,
    limit: int | None = None,
    rate: float | None = None,
    delay: float | None = None,
    idempotency_key: str | None = None,
    **filters: Any,
) -> Request[ReplayAnswer]:
    """Replay the dead letters that match (`run_id`, `job_id`, `task`, `queue`, `failure`, `error`, `fingerprint`,
    `start_time`, `end_time`), `rate` a second, the first after `delay` seconds."""
    body = given(limit=limit, rate=rate, delay=delay, **_moments(filters))
    return Request("POST", "/v1/dead-letters/replay", ReplayAnswer, body=body, headers=once(idempotency_key))


def discard_dead_letters(*, limit: int | None = None, **filters: Any) -> Request[Discarded]:
    """Discard the dead letters that match."""
    body = given(limit=limit, **_moments(filters))
    return Request("POST", "/v1/dead-letters/discard", Discarded, body=body, repeatable=False)


def preview_schedule(
    schedule: str | None = None,
    *,
    tz: str | tzinfo | None = None,
    start: Moment | None = None,
    count: int | None = None,
    **fields: Any,
) -> Request[Preview]:
    """The meaning of a schedule, and its next fires."""
    body = given(schedule=schedule, tz=zone_name(tz), start=None if start is None else moment(start), count=count)
    return Request("POST", "/v1/schedules/preview", Preview, body={**body, **job_fields(**fields)})


def list_calendars() -> Request[CalendarList]:
    """The calendars of the tenant."""
    return Request("GET", "/v1/calendars", CalendarList)


def get_calendar(calendar: str) -> Request[CalendarView]:
    """Read a calendar."""
    return Request("GET", path("/v1/calendars/{}", calendar), CalendarView)


def put_calendar(calendar: str, dates: Iterable[date | str]) -> Request[CalendarView]:
    """Create or replace a calendar."""
    body = {"dates": [str(day) for day in dates]}
    return Request("PUT", path("/v1/calendars/{}", calendar), CalendarView, body=body)


def delete_calendar(calendar: str) -> Request[Deleted]:
    """Delete a calendar that no job uses."""
    return Request("DELETE", path("/v1/calendars/{}", calendar), Deleted, repeatable=False)


def list_queues() -> Request[QueueList]:
    """The queues, with the number of waiting runs."""
    return Request("GET", "/v1/queues", QueueList)


def get_queue(queue: str) -> Request[QueueView]:
    """Read a queue."""
    return Request("GET", path("/v1/queues/{}", queue), QueueView)


def put_queue(
    queue: str,
    *,
    paused: bool | UnsetType = UNSET,
    running: int | UnsetType | None = UNSET,
    rate: str | UnsetType | None = UNSET,
    stream: Mapping[str, Any] | UnsetType | None = UNSET,
) -> Request[QueueView]:
    """Change a queue: whether it is paused, how many runs run at once, how many start (`100/m`), and the stream that
    its runs go through (`address`, `only`, `fallback`, `max_depth`, `replicas`; needs a root key). Omitted fields do
    not change; None removes a limit, or the stream."""
    said = {"paused": paused, "running": running, "rate": rate, "stream": stream}
    body = {name: value for name, value in said.items() if value is not UNSET}
    return Request("PUT", path("/v1/queues/{}", queue), QueueView, body=body)


def get_demand(
    queue: str,
    *,
    minutes: int | None = None,
    slots: int | None = None,
    lag: Length | None = None,
    duration: Length | None = None,
    rate: str | None = None,
) -> Request[DemandView]:
    """How many workers a queue needs, now and in the next `minutes`: workers with so many `slots`, that are to start
    each run within `lag`."""
    query = given(minutes=minutes, slots=slots, lag=lag, duration=duration, rate=rate)
    return Request("GET", path("/v1/queues/{}/demand", queue), DemandView, query)


def list_breakers() -> Request[BreakerList]:
    """The breakers of targets: those that are open, and those that were tried within 30 seconds."""
    return Request("GET", "/v1/breakers", BreakerList)


def reset_breaker(target: str) -> Request[BreakerView]:
    """Close a breaker at once, and reset its counts."""
    return Request("POST", "/v1/breakers/reset", BreakerView, body={"target": target})


def pause_queue(queue: str) -> Request[QueueView]:
    """Pause a queue: no run starts from it. Running ones continue."""
    return Request("POST", path("/v1/queues/{}/pause", queue), QueueView)


def resume_queue(queue: str) -> Request[QueueView]:
    """Resume a queue."""
    return Request("POST", path("/v1/queues/{}/resume", queue), QueueView)


def explain_run(run_id: str) -> Request[WhyView]:
    """Why a run waits, in words, with what to do about it."""
    return Request("GET", path("/v1/runs/{}/why", run_id), WhyView)


def explain_job(job_id: str) -> Request[WhyView]:
    """Why a job waits: its run that starts next, or the job itself."""
    return Request("GET", path("/v1/jobs/{}/why", job_id), WhyView)


def list_workers() -> Request[WorkerList]:
    """The workers of this tenant, and those that left or were lost within a day (`past`)."""
    return Request("GET", "/v1/workers", WorkerList)


def list_tasks() -> Request[TaskList]:
    """The tasks that live workers provide."""
    return Request("GET", "/v1/tasks", TaskList)


def get_task(task: str) -> Request[TaskDetails]:
    """A task that live workers provide, with the JSON schema of its arguments."""
    return Request("GET", path("/v1/tasks/{}", task), TaskDetails)


def create_payload(body: bytes) -> Request[PayloadStored]:
    """Store an encrypted payload. Jobs refer to it by `payload_ref`."""
    headers = {"Content-Type": "application/octet-stream"}
    return Request("POST", "/v1/payloads", PayloadStored, body=body, headers=headers, repeatable=False, timeout=120.0)


def get_payload(payload_ref: str) -> Request[bytes]:
    """The bytes of a payload."""
    return Request("GET", path("/v1/payloads/{}", payload_ref), bytes)


def erase_payload(payload_ref: str) -> Request[Deleted]:
    """Delete a payload, also if jobs refer to it."""
    return Request("DELETE", path("/v1/payloads/{}", payload_ref), Deleted, repeatable=False)


def _moments(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: plain(value) for name, value in filters.items()}
