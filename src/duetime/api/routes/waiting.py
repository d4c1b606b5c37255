"""Why runs and jobs wait."""

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.engine.waiting_reasons import Waiting, why_job, why_run
from duetime.errors import InStream
from duetime.ids import job_of_ready, show
from duetime.model.access import Action
from duetime.model.structs import struct_like
from duetime.model.waiting import IN_STREAM
from duetime.wire.runs import ReasonView, WhyView

routes = Routes("Runs")


@routes.get("/v1/runs/{run_id}/why", Action.READ, scoped=True, answer=WhyView)
async def explain_run(call: Call) -> WhyView:
    """Read why a run waits, in words, with what to do about it. A run that runs or has ended has no reasons."""
    run_id = call.identity("run")
    try:
        run = await call.store.reads.run(call.tenant_id, run_id)
    except InStream:
        return _view(Waiting(job_of_ready(run_id), run_id, await call.store.now(), [IN_STREAM]))
    return _view(await why_run(call.store, call.tenant_id, run))


@routes.get("/v1/jobs/{job_id}/why", Action.READ, scoped=True, answer=WhyView)
async def explain_job(call: Call) -> WhyView:
    """Read why a job waits: the reasons of its run that starts next, or why it has none yet."""
    return _view(await why_job(call.store, call.tenant_id, call.identity("job")))


def _view(waiting: Waiting) -> WhyView:
    return WhyView(
        job_id=show("job", waiting.job_id),
        run_id=None if waiting.run_id is None else show("run", waiting.run_id),
        at=waiting.at,
        reasons=tuple(
            struct_like(
                ReasonView,
                each,
                runs=tuple(show("run", run_id) for run_id in each.run_ids),
                jobs=tuple(show("job", job_id) for job_id in each.job_ids),
            )
            for each in waiting.reasons
        ),
    )
