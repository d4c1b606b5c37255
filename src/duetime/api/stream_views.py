"""What responses show of runs in streams, where nothing can be looked up."""

from uuid import UUID

import msgspec

from duetime.api.call import Call
from duetime.api.job_views import job_view
from duetime.api.run_views import run_view
from duetime.ids import job_of_ready, time_of
from duetime.model.attempt import Run
from duetime.model.job import DEFAULT_OPTIONS, Job, JobState
from duetime.model.lane import Tier
from duetime.model.lists import JobStatus
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.model.structs import struct_like
from duetime.wire.fields import InStreamView
from duetime.wire.jobs import JobView
from duetime.wire.runs import JobStatusAnswer, RunView

_UNKNOWN = {"certain": False, "task": None, "queue": None, "priority": None}


async def in_streams(call: Call, queue: str | None = None) -> tuple[InStreamView, ...]:
    """What is in the streams of the tenant, or of one of its queues, as far as brokers answer."""
    if call.who.scope is not None:
        return ()  # a stream holds the runs of all owners
    sample = await call.service.streaming.glance(call.service.store.streams, call.tenant_id)
    return tuple(
        struct_like(InStreamView, depth, priority=depth.tier.name, depth=depth.messages)
        for depth in sample.depths
        if queue in (None, depth.queue) and depth.messages
    )


def run_in_stream(tenant_id: int, run_id: UUID) -> RunView:
    run = Run(
        id=run_id,
        job_id=job_of_ready(run_id),
        tenant_id=tenant_id,
        task="",
        queue="",
        tier=Tier.MEDIUM,
        state=RunState.PENDING,
        attempt=0,
        lost=0,
        fence=0,
        due_at=time_of(run_id),
        ready_at=None,
        started_at=None,
        finished_at=None,
        worker_id=None,
        lease_until=None,
        args=b"{}",
    )
    return msgspec.structs.replace(run_view(run), status="IN_STREAM", **_UNKNOWN)


def job_in_stream(tenant_id: int, job_id: UUID) -> JobView:
    job = Job(
        id=job_id,
        tenant_id=tenant_id,
        task="",
        queue="",
        tier=Tier.MEDIUM,
        schedule=Once(at=time_of(job_id)),
        state=JobState.ACTIVE,
        next_run=None,
        args=b"{}",
        options=DEFAULT_OPTIONS,
        timeout_ms=None,
        version=1,
        created_at=time_of(job_id),
    )
    return msgspec.structs.replace(job_view(job, JobStatus.IN_STREAM), **_UNKNOWN)


def status_in_stream(job_id: str) -> JobStatusAnswer:
    return JobStatusAnswer(
        job_id=job_id,
        status=JobStatus.IN_STREAM,
        certain=False,
        last_run=None,
        next_run=None,
        retry_count=0,
        attempts=0,
        failure_reason=None,
    )
