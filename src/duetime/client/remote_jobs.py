"""The jobs of an app behind a server: what an app asks of a store, asked over HTTP.

An embedded file belongs to one process. When a live `duetime up` owns it, an app in another process reaches its jobs
through that one. What an app gets back is the same as beside a store, except for what the API does not tell: fences and
the end of leases.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.client.client import AsyncClient
from duetime.clock import SystemClock
from duetime.errors import InvalidInput
from duetime.ids import parse, show
from duetime.model import json
from duetime.model.attempt import Attempt, AttemptState, Run
from duetime.model.failure import FailureClass
from duetime.model.job import Job, JobState, NewJob, Options, Submitted, decode_options
from duetime.model.lane import Tier
from duetime.model.listing import JobStatus
from duetime.model.policy import Misfire
from duetime.model.retry import RetryPolicy
from duetime.model.run import RunState
from duetime.model.schedule import Once, exact_form
from duetime.model.schedule.reading import parse_schedule
from duetime.wire.jobs import JobView, Receipt
from duetime.wire.runs import AttemptView, RunView

_MOMENT = timedelta(microseconds=1)
_PAGE = 200


class RemoteJobs:
    """Which tenant it is, the key says: the number that a caller gives is not sent."""

    def __init__(self, url: str, key: str | None) -> None:
        self._client = AsyncClient(url, key)

    async def close(self) -> None:
        await self._client.close()

    async def now(self) -> datetime:
        """The day that words are told from: the server's clock and this one agree on it well enough."""
        return SystemClock().now()

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if len(jobs) == 1:
            return [_submitted(await self._client.create_job(**_request(jobs[0])))]
        answer = await self._client.create_jobs([_request(job) for job in jobs])
        return [_submitted(item.job) for item in answer.items if item.job is not None]

    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return _job(tenant_id, await self._client.get_job(show("job", job_id)))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return _run(tenant_id, await self._client.get_run(show("run", run_id)))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        found: list[Run] = []
        async for run in self._client.runs_of_job(show("job", job_id), page_size=min(limit, _PAGE)):
            found.append(await self.run(tenant_id, parse("run", run.run_id)))
            if len(found) == limit:
                break
        return found

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.pause_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.resume_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        await self._client.cancel_job(show("job", job_id))
        return await self.job(tenant_id, job_id)

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return _run(tenant_id, await self._client.cancel_run(show("run", run_id)))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes) -> Run:
        return _run(tenant_id, await self._client.trigger_job(show("job", job_id)))

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, fires: Sequence[datetime], nonce: bytes, rate: float
    ) -> int:
        if not fires:
            return 0
        answer = await self._client.backfill_job(
            show("job", job_id), fires[0], fires[-1] + _MOMENT, limit=len(fires), rate=rate
        )
        return answer.runs


def _request(job: NewJob) -> dict[str, Any]:
    """A job that an app has checked, in the words of the API."""
    lane, options = job.lane, decode_options(job.options)
    fields: dict[str, Any] = {
        "task": lane.task,
        "args": json.decode(job.args),
        "queue": lane.queue,
        "priority": Tier(lane.tier).name,
        "timeout": None if job.timeout_ms is None else job.timeout_ms / 1000,
        "key": job.key,
        "idempotency_key": job.idempotency_key,
        "name": options.name,
        "owner": options.owner,
        "payload_ref": options.payload_ref,
        "tags": list(options.tags) or None,
        "delivery": "at_most_once" if options.at_most_once else None,
        "retry": None if options.at_most_once else msgspec.to_builtins(options.retry) or None,
    }
    schedule = job.schedule
    if isinstance(schedule, Once):
        return {**fields, "run_at": schedule.at, "run_in": schedule.delay}
    if schedule.exclude is not None:
        raise InvalidInput("cannot be said over HTTP", field="exclude", remedy="schedule it beside the database")
    kind, _, form = exact_form(schedule).partition(" ")
    return {
        **fields,
        kind: form,
        "tz": schedule.zone,
        "start_at": schedule.start_at,
        "end_at": schedule.end_at,
        "misfire": msgspec.structs.asdict(options.misfire),
        "overlap": options.overlap,
        "jitter": options.jitter or None,
        "max_runs": options.max_runs,
    }


def _submitted(receipt: Receipt) -> Submitted:
    run_id = None if receipt.run_id is None else parse("run", receipt.run_id)
    note = "; ".join(receipt.warnings) or None
    return Submitted(parse("job", receipt.job_id), receipt.next_run, run_id, receipt.created, note)


def _job(tenant_id: int, view: JobView) -> Job:
    options = Options(
        name=view.name,
        tags=view.tags,
        retry=RetryPolicy(**msgspec.structs.asdict(view.retry)),
        at_most_once=view.delivery == "at_most_once",
        key=view.key,
        misfire=Misfire(**msgspec.structs.asdict(view.misfire)),
        overlap=view.overlap,
        jitter=view.jitter,
        max_runs=view.max_runs,
        owner=view.owner,
        payload_ref=view.payload_ref,
    )
    return Job(
        parse("job", view.job_id),
        tenant_id,
        view.task,
        view.queue,
        Tier[view.priority],
        parse_schedule(view.schedule.exact, zone=view.schedule.tz, now=view.created_at),
        _state(view.status),
        view.next_run,
        json.encode(view.args, field="args"),
        options,
        None if view.timeout is None else round(view.timeout * 1000),
        view.version,
        view.created_at,
        view.problem,
        view.made,
        view.missed,
    )


def _state(status: JobStatus) -> JobState:
    """The state of a job: a one-off shows its run's, of which each end but CANCELLED ends the job."""
    if status.value in JobState.__members__:
        return JobState[status.value]
    return JobState.ENDED if RunState[status.value].is_end else JobState.ACTIVE


def _run(tenant_id: int, view: RunView) -> Run:
    return Run(
        parse("run", view.run_id),
        parse("job", view.job_id),
        tenant_id,
        view.task,
        view.queue,
        Tier[view.priority],
        RunState[view.status],
        view.attempt,
        view.lost,
        0,
        view.due_at,
        view.ready_at,
        view.started_at,
        view.finished_at,
        _worker(view.worker_id),
        None,
        json.encode(view.args, field="args"),
        None if view.result is None else json.encode(view.result, field="result"),
        _failure(view.failure),
        view.error,
        view.progress,
        view.message,
        tuple(_attempt(attempt) for attempt in view.attempts),
    )


def _attempt(view: AttemptView) -> Attempt:
    logs = json.encode({"lines": list(view.logs)}, field="logs") if view.logs else None
    return Attempt(
        view.attempt,
        0,
        AttemptState[view.status],
        _worker(view.worker_id),
        view.started_at,
        view.finished_at,
        _failure(view.failure),
        view.error,
        logs,
    )


def _worker(worker_id: str | None) -> UUID | None:
    return None if worker_id is None else parse("wrk", worker_id)


def _failure(name: str | None) -> FailureClass | None:
    return None if name is None else FailureClass[name.upper()]
