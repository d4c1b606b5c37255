"""Runs: read and control."""

import os
from contextlib import suppress

import msgspec

from duetime import ids
from duetime.api.call import Call
from duetime.api.endpoint import Reply, Routes
from duetime.api.idempotency import HEADER, keyed_by_header, replay_headers
from duetime.api.list_filters import run_filter
from duetime.api.run_views import run_summary, run_view
from duetime.api.stream_views import in_streams, run_in_stream, status_in_stream
from duetime.errors import InStream
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.lists import RunFilter
from duetime.store.rules.replays import is_new_repeat
from duetime.wire.runs import JobStatusAnswer, RunPage, RunQuery, RunsOfJobQuery, RunView

routes = Routes("Runs")


@routes.get("/v1/jobs/{job_id}/status", Action.READ, scoped=True, answer=JobStatusAnswer)
async def get_job_status(call: Call) -> JobStatusAnswer:
    """Read the status of a job: its last and its next run, and its last error."""
    try:
        report = await call.store.lists.job_status(call.tenant_id, call.identity("job"))
    except InStream:
        return status_in_stream(show("job", call.identity("job")))
    return JobStatusAnswer(
        job_id=show("job", report.job_id),
        status=report.status,
        last_run=None if report.last_run is None else run_summary(report.last_run),
        next_run=report.next_run,
        retry_count=report.retry_count,
        attempts=report.attempts,
        failure_reason=report.failure_reason,
    )


@routes.get("/v1/jobs/{job_id}/runs", Action.READ, scoped=True, query=RunsOfJobQuery, answer=RunPage, replica=True)
async def list_runs_of_job(call: Call) -> RunPage:
    """List the runs of a job, newest first."""
    job_id = call.identity("job")
    with suppress(InStream):
        # Raises NotFound for a job that does not exist.
        await call.store.lists.job_status(call.tenant_id, job_id)
    return await _page(call, msgspec.structs.replace(run_filter(call.query), job_id=job_id))


@routes.get("/v1/runs", Action.READ, scoped=True, query=RunQuery, answer=RunPage, replica=True)
async def list_runs(call: Call) -> RunPage:
    """List runs, newest first by their due time."""
    return await _page(call, run_filter(call.query))


@routes.get("/v1/runs/{run_id}", Action.READ, scoped=True, answer=RunView)
async def get_run(call: Call) -> RunView:
    """Read a run with its attempts, logs, progress and result."""
    run_id = call.identity("run")
    try:
        return run_view(await call.store.reads.run(call.tenant_id, run_id))
    except InStream:
        return run_in_stream(call.tenant_id, run_id)


@routes.action("/v1/runs/{run_id}/cancel", Action.CONTROL, scoped=True, answer=RunView, problems=(409,))
async def cancel_run(call: Call) -> RunView:
    """Cancel a waiting run, or ask a running one to stop."""
    run_id = call.identity("run")
    run = await call.store.control.cancel_run(call.tenant_id, run_id)
    await call.act("runs.cancel", show("run", run_id))
    return run_view(run)


@routes.action(
    "/v1/runs/{run_id}/retry", Action.CONTROL, scoped=True, answer=RunView, problems=(409,), repeats="by handler"
)
async def retry_run(call: Call) -> Reply:
    """Retry a run: a run that waits for its retry starts now, an ended one gets a new run. A run is repeated once:
    repeated requests return the same new run."""
    run_id = call.identity("run")
    keyed = keyed_by_header(call, "retry", run_id)
    nonce = os.urandom(8)
    async with call.submitting(1, call.header(HEADER)) as created:
        run = await call.store.replay.retry_run(call.tenant_id, run_id, nonce, keyed)
        created.count = int(is_new_repeat(run, run_id, nonce))
    await call.act("runs.retry", show("run", run_id), None if run.id == run_id else ids.show("run", run.id))
    return Reply(run_view(run), headers=replay_headers(keyed))


@routes.action(
    "/v1/jobs/{job_id}/trigger",
    Action.CONTROL,
    scoped=True,
    answer=RunView,
    status=201,
    problems=(409,),
    repeats="by handler",
)
async def trigger_job(call: Call) -> Reply:
    """Run a job now, in addition to its schedule."""
    job_id = call.identity("job")
    keyed = keyed_by_header(call, "trigger", job_id)
    async with call.submitting(1, call.header(HEADER)) as created:
        run = await call.store.control.trigger_job(call.tenant_id, job_id, os.urandom(8), keyed)
        created.count = int(keyed is None or not keyed.replayed)
    await call.act("jobs.trigger", show("job", job_id), show("run", run.id))
    return Reply(run_view(run), headers=replay_headers(keyed))


async def _page(call: Call, wanted: RunFilter) -> RunPage:
    before = await call.page_start()
    page = await call.store.lists.list_runs(call.tenant_id, wanted, before, call.query.page_size)
    items, cursor = tuple(run_summary(run) for run in page.items), await call.next_cursor(page.next)
    by_job = wanted.within is not None or call.who.scope is not None
    searched_to = None if page.next is None or by_job else ids.time_of(page.next)
    return RunPage(items, cursor, searched_to, await in_streams(call, wanted.queue), page.archived)
