"""Every request that the API knows, by the name of its operation: what a client may ask, without sending it."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal
from uuid import uuid4

import msgspec

from duetime.api.schemas.jobs import (
    Backfilled,
    BatchAnswer,
    Deleted,
    JobPage,
    JobView,
    Receipt,
    StatusAnswer,
)
from duetime.api.schemas.runs import (
    DeadLetterPage,
    Discarded,
    JobStatusAnswer,
    ReplayAnswer,
    RunPage,
    RunView,
)
from duetime.api.schemas.service import PayloadStored, Preview, QueueList, QueueView, TaskList, WorkerList
from duetime.client.ask import Ask, given, path

Moment = datetime | str
Length = timedelta | float | str
Priority = Literal["HIGH", "MEDIUM", "LOW"]

_encoder = msgspec.json.Encoder()


# Jobs.


def create_job(
    task: str,
    *,
    args: Mapping[str, Any] | None = None,
    run_at: Moment | None = None,
    run_in: Length | None = None,
    cron: str | None = None,
    every: Length | None = None,
    when: str | None = None,
    tz: str | None = None,
    idempotency_key: str | None = None,
    **options: Any,
) -> Ask[Receipt]:
    """Create a job: now, at a time, after a while, on a cron line, at an interval, or `when` in words.

    Other options are fields of the API: `name`, `owner`, `queue`, `priority`, `retries`, `retry`, `timeout`, `key`,
    `tags`, `payload_ref`, `misfire`, `overlap`, `jitter`, `max_runs`, `delivery`, `start_at`, `end_at`. It is sent with
    an idempotency key, so that trying again after a lost answer creates nothing twice.
    """
    body = job_fields(
        task=task, args=args, run_at=run_at, run_in=run_in, cron=cron, every=every, when=when, tz=tz, **options
    )
    return Ask("POST", "/v1/jobs", Receipt, body=body, headers=_once(idempotency_key))


def create_jobs(
    jobs: Iterable[Mapping[str, Any]], *, partial: bool = False, idempotency_key: str | None = None
) -> Ask[BatchAnswer]:
    """Create up to 10,000 jobs in one transaction: all or nothing, or with `partial` all that can be stored."""
    lines = [_encoder.encode(job_fields(**job)) for job in jobs]
    headers = {**_once(idempotency_key), "Content-Type": "application/x-ndjson"}
    query = {"partial": partial} if partial else {}
    body = b"\n".join(lines)
    return Ask("POST", "/v1/jobs/batch", BatchAnswer, query, body, headers, patience=120.0)


def list_jobs(
    *,
    status: str | None = None,
    owner: str | None = None,
    name: str | None = None,
    task: str | None = None,
    queue: str | None = None,
    tag: str | None = None,
    key: str | None = None,
    recurring: bool | None = None,
    start_time: Moment | None = None,
    end_time: Moment | None = None,
    page_size: int | None = None,
    cursor: str | None = None,
) -> Ask[JobPage]:
    """A page of jobs, newest first."""
    query = given(
        status=status,
        owner=owner,
        name=name,
        task=task,
        queue=queue,
        tag=tag,
        key=key,
        recurring=recurring,
        start_time=start_time,
        end_time=end_time,
        page_size=page_size,
        cursor=cursor,
    )
    return Ask("GET", "/v1/jobs", JobPage, query)


def get_job(job_id: str) -> Ask[JobView]:
    """A job as it stands now."""
    return Ask("GET", path("/v1/jobs/{}", job_id), JobView)


def delete_job(job_id: str) -> Ask[Deleted]:
    """Delete a job; its history stays until its retention is over."""
    return Ask("DELETE", path("/v1/jobs/{}", job_id), Deleted, repeatable=False)


def cancel_job(job_id: str) -> Ask[StatusAnswer]:
    """No further run; a run under way is asked to stop."""
    return Ask("POST", path("/v1/jobs/{}/cancel", job_id), StatusAnswer)


def pause_job(job_id: str) -> Ask[StatusAnswer]:
    """Fire no more until it is resumed."""
    return Ask("POST", path("/v1/jobs/{}/pause", job_id), StatusAnswer)


def resume_job(job_id: str) -> Ask[StatusAnswer]:
    """Go on; what was missed meanwhile is for the misfire policy to decide."""
    return Ask("POST", path("/v1/jobs/{}/resume", job_id), StatusAnswer)


def trigger_job(job_id: str) -> Ask[RunView]:
    """Make an extra run now, without touching the rhythm."""
    return Ask("POST", path("/v1/jobs/{}/trigger", job_id), RunView, repeatable=False)


def backfill_job(
    job_id: str, start: Moment, end: Moment, *, limit: int | None = None, rate: float | None = None
) -> Ask[Backfilled]:
    """Make the runs of a past range, `rate` a second."""
    body = given(start=moment(start), end=moment(end), limit=limit, rate=rate)
    return Ask("POST", path("/v1/jobs/{}/backfill", job_id), Backfilled, body=body, repeatable=False)


def get_job_status(job_id: str) -> Ask[JobStatusAnswer]:
    """How a job stands: its last run, its next one, and why it failed."""
    return Ask("GET", path("/v1/jobs/{}/status", job_id), JobStatusAnswer)


# Runs and dead letters.


def list_runs(
    *,
    status: str | None = None,
    task: str | None = None,
    queue: str | None = None,
    start_time: Moment | None = None,
    end_time: Moment | None = None,
    page_size: int | None = None,
    cursor: str | None = None,
) -> Ask[RunPage]:
    """A page of runs, newest first."""
    query = given(
        status=status,
        task=task,
        queue=queue,
        start_time=start_time,
        end_time=end_time,
        page_size=page_size,
        cursor=cursor,
    )
    return Ask("GET", "/v1/runs", RunPage, query)


def list_runs_of_job(
    job_id: str,
    *,
    status: str | None = None,
    start_time: Moment | None = None,
    end_time: Moment | None = None,
    page_size: int | None = None,
    cursor: str | None = None,
) -> Ask[RunPage]:
    """A page of the runs of one job, newest first."""
    query = given(status=status, start_time=start_time, end_time=end_time, page_size=page_size, cursor=cursor)
    return Ask("GET", path("/v1/jobs/{}/runs", job_id), RunPage, query)


def get_run(run_id: str) -> Ask[RunView]:
    """A run with its attempts, logs and result."""
    return Ask("GET", path("/v1/runs/{}", run_id), RunView)


def cancel_run(run_id: str) -> Ask[RunView]:
    """Cancel a run that waits, or ask a running one to stop."""
    return Ask("POST", path("/v1/runs/{}/cancel", run_id), RunView)


def retry_run(run_id: str) -> Ask[RunView]:
    """Try a run again: one that waits for its retry now, one that is over as a new run."""
    return Ask("POST", path("/v1/runs/{}/retry", run_id), RunView, repeatable=False)


def list_dead_letters(
    *,
    job_id: str | None = None,
    task: str | None = None,
    queue: str | None = None,
    failure: str | None = None,
    error: str | None = None,
    start_time: Moment | None = None,
    end_time: Moment | None = None,
    page_size: int | None = None,
    cursor: str | None = None,
) -> Ask[DeadLetterPage]:
    """A page of runs whose attempts are spent."""
    query = given(
        job_id=job_id,
        task=task,
        queue=queue,
        failure=failure,
        error=error,
        start_time=start_time,
        end_time=end_time,
        page_size=page_size,
        cursor=cursor,
    )
    return Ask("GET", "/v1/dead-letters", DeadLetterPage, query)


def replay_dead_letters(*, limit: int | None = None, rate: float | None = None, **filters: Any) -> Ask[ReplayAnswer]:
    """Repeat the dead letters that match (`run_id`, `job_id`, `task`, `queue`, `failure`, `error`, `start_time`,
    `end_time`), `rate` a second."""
    body = given(limit=limit, rate=rate, **_moments(filters))
    return Ask("POST", "/v1/dead-letters/replay", ReplayAnswer, body=body, repeatable=False)


def discard_dead_letters(*, limit: int | None = None, **filters: Any) -> Ask[Discarded]:
    """Remove the dead letters that match."""
    body = given(limit=limit, **_moments(filters))
    return Ask("POST", "/v1/dead-letters/discard", Discarded, body=body, repeatable=False)


# Schedules, queues, workers, payloads.


def preview_schedule(
    schedule: str | None = None,
    *,
    tz: str | None = None,
    start: Moment | None = None,
    count: int | None = None,
    **fields: Any,
) -> Ask[Preview]:
    """What a schedule means, and its next fires."""
    body = given(schedule=schedule, tz=tz, start=None if start is None else moment(start), count=count)
    return Ask("POST", "/v1/schedules/preview", Preview, body={**body, **job_fields(**fields)})


def list_queues() -> Ask[QueueList]:
    """The queues, with what waits in them."""
    return Ask("GET", "/v1/queues", QueueList)


def get_queue(queue: str) -> Ask[QueueView]:
    """One queue."""
    return Ask("GET", path("/v1/queues/{}", queue), QueueView)


def put_queue(queue: str, *, paused: bool) -> Ask[QueueView]:
    """Say how a queue shall be."""
    return Ask("PUT", path("/v1/queues/{}", queue), QueueView, body={"paused": paused})


def pause_queue(queue: str) -> Ask[QueueView]:
    """Start nothing more from a queue; what runs goes on."""
    return Ask("POST", path("/v1/queues/{}/pause", queue), QueueView)


def resume_queue(queue: str) -> Ask[QueueView]:
    """Start again what waits in a queue."""
    return Ask("POST", path("/v1/queues/{}/resume", queue), QueueView)


def list_workers() -> Ask[WorkerList]:
    """The workers that work for this tenant."""
    return Ask("GET", "/v1/workers", WorkerList)


def list_tasks() -> Ask[TaskList]:
    """What the live workers can do."""
    return Ask("GET", "/v1/tasks", TaskList)


def create_payload(body: bytes) -> Ask[PayloadStored]:
    """Store a payload, encrypted; a job refers to it with `payload_ref`."""
    headers = {"Content-Type": "application/octet-stream"}
    return Ask("POST", "/v1/payloads", PayloadStored, body=body, headers=headers, repeatable=False, patience=120.0)


def get_payload(payload_ref: str) -> Ask[bytes]:
    """The bytes of a payload."""
    return Ask("GET", path("/v1/payloads/{}", payload_ref), bytes)


def erase_payload(payload_ref: str) -> Ask[Deleted]:
    """Erase a payload, whoever refers to it."""
    return Ask("DELETE", path("/v1/payloads/{}", payload_ref), Deleted, repeatable=False)


def job_fields(**fields: Any) -> dict[str, Any]:
    """The fields of a job as JSON has them."""
    return {name: _plain(value) for name, value in fields.items() if value is not None}


def moment(value: Moment) -> str:
    return value.isoformat() if isinstance(value, datetime) else value


def _plain(value: object) -> object:
    match value:
        case datetime():
            return value.isoformat()
        case timedelta():
            return value.total_seconds()
        case msgspec.Struct():
            return msgspec.to_builtins(value)
        case _:
            return value


def _moments(filters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _plain(value) for name, value in filters.items()}


def _once(idempotency_key: str | None) -> dict[str, str]:
    return {"Idempotency-Key": idempotency_key or str(uuid4())}
