"""Why a run or a job of a store waits."""

from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from duetime.errors import InStream
from duetime.model.attempt import Run
from duetime.model.waiting import IN_STREAM, Reason, why_job_waits, why_run_waits
from duetime.store.protocol.store import Store


class Waiting(NamedTuple):
    job_id: UUID
    run_id: UUID | None
    """The run that waits; None for a job that has none."""
    at: datetime
    reasons: list[Reason]
    """The first one holds it now; empty if it does not wait."""


async def why_job(store: Store, tenant_id: int, job_id: UUID) -> Waiting:
    """The reasons of the run of a job that starts next, or why it has none yet."""
    try:
        await store.reads.job(tenant_id, job_id)
    except InStream:
        return Waiting(job_id, None, await store.now(), [IN_STREAM])
    run_id = await store.waiting.waiting_run_of_job(tenant_id, job_id)
    if run_id is not None:
        return await why_run(store, tenant_id, await store.reads.run(tenant_id, run_id))
    facts = await store.waiting.job_facts(tenant_id, job_id)
    if facts is None:
        return Waiting(job_id, None, await store.now(), [])
    return Waiting(job_id, None, facts.now, why_job_waits(facts))


async def why_run(store: Store, tenant_id: int, run: Run) -> Waiting:
    facts = await store.waiting.run_facts(tenant_id, run.id)
    if facts is None:
        return Waiting(run.job_id, run.id, await store.now(), [])
    last = run.attempts[-1] if run.attempts else None
    return Waiting(run.job_id, run.id, facts.now, why_run_waits(facts, last, run.message))
