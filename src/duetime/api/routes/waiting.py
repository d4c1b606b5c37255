"""Why runs and jobs wait."""

from datetime import datetime
from uuid import UUID

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.errors import InStream
from duetime.ids import job_of_ready, show
from duetime.model.access import Action
from duetime.model.attempt import Run
from duetime.model.structs import struct_like
from duetime.model.waiting import IN_STREAM, Reason, why_job_waits, why_run_waits
from duetime.wire.runs import ReasonView, WhyView

routes = Routes("Runs")


@routes.get("/v1/runs/{run_id}/why", Action.READ, scoped=True, answer=WhyView)
async def explain_run(call: Call) -> WhyView:
    """Read why a run waits, in words, with what to do about it. A run that runs or has ended has no reasons."""
    run_id = call.identity("run")
    try:
        run = await call.store.reads.run(call.tenant_id, run_id)
    except InStream:
        return _view(job_of_ready(run_id), run_id, await call.store.now(), [IN_STREAM])
    return await _why_run(call, run)


@routes.get("/v1/jobs/{job_id}/why", Action.READ, scoped=True, answer=WhyView)
async def explain_job(call: Call) -> WhyView:
    """Read why a job waits: the reasons of its run that starts next, or why it has none yet."""
    job_id, store = call.identity("job"), call.store
    try:
        await store.reads.job(call.tenant_id, job_id)
    except InStream:
        return _view(job_id, None, await store.now(), [IN_STREAM])
    run_id = await store.waiting.waiting_run_of_job(call.tenant_id, job_id)
    if run_id is not None:
        return await _why_run(call, await store.reads.run(call.tenant_id, run_id))
    facts = await store.waiting.job_facts(call.tenant_id, job_id)
    if facts is None:
        return _view(job_id, None, await store.now(), [])
    return _view(job_id, None, facts.now, why_job_waits(facts))


async def _why_run(call: Call, run: Run) -> WhyView:
    facts = await call.store.waiting.run_facts(call.tenant_id, run.id)
    if facts is None:
        return _view(run.job_id, run.id, await call.store.now(), [])
    last = run.attempts[-1] if run.attempts else None
    return _view(run.job_id, run.id, facts.now, why_run_waits(facts, last, run.message))


def _view(job_id: UUID, run_id: UUID | None, at: datetime, reasons: list[Reason]) -> WhyView:
    return WhyView(
        job_id=show("job", job_id),
        run_id=None if run_id is None else show("run", run_id),
        at=at,
        reasons=tuple(
            struct_like(
                ReasonView,
                each,
                runs=tuple(show("run", run_id) for run_id in each.run_ids),
                jobs=tuple(show("job", job_id) for job_id in each.job_ids),
            )
            for each in reasons
        ),
    )
