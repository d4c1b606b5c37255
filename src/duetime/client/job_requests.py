"""Requests about jobs, one function per operation. They are built here and sent by the client."""

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

import msgspec

from duetime.client.request import Moment, Request, Span, field, given, job_fields, moment, once, path, submission
from duetime.model.target import Target
from duetime.spec.options import RequestOptions
from duetime.wire.jobs import (
    Backfilled,
    BatchAnswer,
    Deleted,
    JobPage,
    JobView,
    Receipt,
    StatusAnswer,
)
from duetime.wire.runs import JobStatusAnswer, RunView

_encoder = msgspec.json.Encoder()


def create_job(
    task: str | None = None,
    *,
    target: Mapping[str, Any] | Target | None = None,
    callback_url: str | None = None,
    args: Mapping[str, Any] | None = None,
    once: bool | None = None,
    **options: Unpack[RequestOptions],
) -> Request[Receipt]:
    """Create a job: now, at a time, after a while, on a cron line or a recurrence rule, at an interval, or `when`
    in words.

    It does a task that workers have, or duetime does it itself: a `target` is a call or a command, a `callback_url` is
    short for a POST of the arguments.

    `options` are the other job options by name (docs/options.md).

    It is sent with a nonce, or with your idempotency key: trying again after a lost answer creates nothing twice.
    """
    idempotency_key = options.pop("idempotency_key", None)
    body = job_fields(task=task, target=target, callback_url=callback_url, args=args, once=once, **options)
    return Request("POST", "/v1/jobs", Receipt, body=body, headers=submission(idempotency_key))


def create_jobs(
    jobs: Iterable[Mapping[str, Any]], *, partial: bool = False, idempotency_key: str | None = None
) -> Request[BatchAnswer]:
    """Create up to 10,000 jobs in one transaction: all or nothing, or with `partial` all that can be stored."""
    lines = [_encoder.encode(job_fields(**job)) for job in jobs]
    headers = {**submission(idempotency_key), "Content-Type": "application/x-ndjson"}
    query = {"partial": partial} if partial else {}
    body = b"\n".join(lines)
    return Request("POST", "/v1/jobs/batch", BatchAnswer, query, body, headers, timeout=120.0)


class Jobs(Span, total=False):
    search: str | None
    status: str | None
    owner: str | None
    name: str | None
    task: str | None
    queue: str | None
    tag: str | None
    key: str | None
    recurring: bool | None
    order: str | None
    fires_from: Moment | None
    fires_until: Moment | None


def list_jobs(**wanted: Unpack[Jobs]) -> Request[JobPage]:
    """A page of jobs, newest first. `fires_from` and `fires_until` ask for those with a run in that time: the ones that
    `list_fires` counts."""
    return Request("GET", "/v1/jobs", JobPage, given(**wanted))


def get_job(job_id: str) -> Request[JobView]:
    """A job as it stands now."""
    return Request("GET", path("/v1/jobs/{}", job_id), JobView)


def change_job(job_id: str, *, version: int | None = None, **fields: Any) -> Request[JobView]:
    """Change a job's schedule, arguments or policies; what is not given stays, and None takes a thing away. With
    `version`, raises `StaleVersion` if the job has another version."""
    headers = {} if version is None else {"If-Match": f'"{version}"'}
    body = {name: field(name, value) for name, value in fields.items()}
    return Request(
        "PATCH", path("/v1/jobs/{}", job_id), JobView, body=body, headers=headers, repeatable=version is None
    )


def delete_job(job_id: str) -> Request[Deleted]:
    """Delete a job; its history stays until its retention is over."""
    return Request("DELETE", path("/v1/jobs/{}", job_id), Deleted, repeatable=False)


def cancel_job(job_id: str) -> Request[StatusAnswer]:
    """No further run; a run under way is asked to stop."""
    return Request("POST", path("/v1/jobs/{}/cancel", job_id), StatusAnswer)


def pause_job(job_id: str) -> Request[StatusAnswer]:
    """Fire no more until it is resumed."""
    return Request("POST", path("/v1/jobs/{}/pause", job_id), StatusAnswer)


def resume_job(job_id: str) -> Request[StatusAnswer]:
    """Go on; what was missed meanwhile is for the misfire policy to decide."""
    return Request("POST", path("/v1/jobs/{}/resume", job_id), StatusAnswer)


def trigger_job(job_id: str, *, idempotency_key: str | None = None) -> Request[RunView]:
    """Make an extra run now, without touching the rhythm."""
    return Request("POST", path("/v1/jobs/{}/trigger", job_id), RunView, headers=once(idempotency_key))


def backfill_job(
    job_id: str,
    start: Moment,
    end: Moment,
    *,
    limit: int | None = None,
    rate: float | None = None,
    idempotency_key: str | None = None,
) -> Request[Backfilled]:
    """Make the runs of a past range, `rate` a second."""
    body = given(start=moment(start), end=moment(end), limit=limit, rate=rate)
    return Request("POST", path("/v1/jobs/{}/backfill", job_id), Backfilled, body=body, headers=once(idempotency_key))


def get_job_status(job_id: str) -> Request[JobStatusAnswer]:
    """How a job stands: its last run, its next one, and why it failed."""
    return Request("GET", path("/v1/jobs/{}/status", job_id), JobStatusAnswer)
