"""Jobs: create, read, control."""

import os
from datetime import datetime
from functools import partial
from uuid import UUID

from duetime.api.call import Call, Created
from duetime.api.endpoint import Reply, Routes
from duetime.api.idempotency import HEADER, SUBMISSION, Repeat, keyed_by_header, repeat_of, replay_headers
from duetime.api.job_views import job_summary, job_view, receipt
from duetime.api.list_filters import job_filter
from duetime.api.problems import INVALID_INPUT, Problem
from duetime.api.stream_views import in_streams, job_in_stream
from duetime.engine.backfill import check_rate, fires_between
from duetime.engine.coming_jobs import list_coming_jobs
from duetime.errors import InStream, InvalidInput
from duetime.ids import show, time_of
from duetime.model.access import Action
from duetime.model.firing import Backfill
from duetime.model.forecast import FARTHEST
from duetime.model.lists import JobFilter, NamePlace
from duetime.model.schedule import check_moment
from duetime.model.tracing import traced
from duetime.wire.jobs import (
    Backfilled,
    BackfillRequest,
    Deleted,
    JobPage,
    JobQuery,
    JobRequest,
    JobView,
    Receipt,
    StatusAnswer,
)

routes = Routes("Jobs")


@routes.post(
    "/v1/jobs",
    Action.SUBMIT,
    scoped=True,
    body=JobRequest,
    body_limit="job",
    answer=Receipt,
    status=201,
    problems=(409,),
    headers=SUBMISSION,
    repeats="by handler",
)
async def create_job(call: Call) -> Reply:
    """Create a job."""
    request = call.body
    repeat = _repeat(call, request.idempotency_key)
    async with call.submitting(1, request.idempotency_key if repeat is None else repeat.key) as created:
        return await _create(call, request, repeat, created)


async def _create(call: Call, request: JobRequest, repeat: Repeat | None, created: Created) -> Reply:
    service = call.service
    maker = await service.job_maker(await call.tenant(), [request.task], scope=call.who.scope)
    if maker.needs_the_day(request):
        maker.now = await call.store.now()
    if repeat is None:
        job = maker.make(request)
    else:
        job_id = repeat.job_id(call.tenant_id)
        job = maker.make(request, idempotency_key=repeat.key, job_id=job_id, by_nonce=job_id is not None)
    await service.secrets.check(call.who, request.target)
    task = job.lane.task
    warnings = service.tasks.warnings(maker.known, [task], suggest=call.who.scope is None)[task]
    if service.tracer is None:
        answer = await call.intake.submit(call.tenant_id, job)
    else:
        with traced(service.tracer, [job], call.header(b"traceparent")) as (remembering,):
            answer = await call.intake.submit(call.tenant_id, remembering)
    service.trail.submitted(
        call.who, answer.job_id, answer.job_id, 1
    )  # also for a repeated request: the first response may be lost
    headers = created.headers
    if answer.replayed:
        created.count = 0
        headers = headers | {"idempotency-replayed": "true"}
    return Reply(receipt(job, answer, warnings), headers=headers)


@routes.get("/v1/jobs", Action.READ, scoped=True, query=JobQuery, answer=JobPage, replica=True)
async def list_jobs(call: Call) -> JobPage:
    """List jobs, newest first, without their arguments."""
    query = call.query
    wanted = job_filter(query)
    store = call.store
    if query.order != "newest":
        return await _by_name(call, wanted)
    before = await call.page_start()
    if query.fires_from is None and query.fires_until is None:
        page = await store.lists.list_jobs(call.tenant_id, wanted, before, query.page_size)
        items = tuple(job_summary(job) for job in page.items)
    else:
        span = await _span(call)
        compute = partial(call.service.computing.run, call.tenant_id)
        page, runs = await list_coming_jobs(store, compute, call.tenant_id, wanted, *span, before, query.page_size)
        items = tuple(job_summary(job, fires=runs[job.id]) for job in page.items)
    searched_to = None if page.next is None else time_of(page.next)
    return JobPage(items, await call.next_cursor(page.next), searched_to, await in_streams(call, query.queue))


async def _by_name(call: Call, wanted: JobFilter) -> JobPage:
    query = call.query
    for name in ("search", "owner", "name", "tag", "key", "fires_from", "fires_until"):
        if getattr(query, name) is not None:
            raise InvalidInput("cannot be combined with an order", field=name, remedy="omit it, or omit order")
    place = await call.page_start_bytes()
    after = None if place is None else NamePlace(place[16:].decode(), UUID(bytes=place[:16]))
    down = query.order == "-name"
    page = await call.store.lists.list_jobs_by_name(call.tenant_id, wanted, after, query.page_size, down=down)
    rest = page.next
    cursor = None if rest is None else await call.next_cursor_bytes(rest.job_id.bytes + rest.name.encode())
    items = tuple(job_summary(job) for job in page.items)
    return JobPage(items, cursor, None, await in_streams(call, query.queue))


async def _span(call: Call) -> tuple[datetime, datetime]:
    """The range of fires that the query asks for."""
    query = call.query
    for name in ("fires_from", "fires_until"):
        if getattr(query, name) is None:
            raise InvalidInput("is missing", field=name, remedy="give fires_from and fires_until")
    for name in ("search", "owner", "name", "tag", "key", "start_time", "end_time"):
        if getattr(query, name) is not None:
            raise InvalidInput("cannot be combined with fires_from", field=name, remedy="omit it")
    start, end = check_moment(query.fires_from, "fires_from"), check_moment(query.fires_until, "fires_until")
    if end <= start or end > await call.store.now() + FARTHEST:
        raise InvalidInput(
            "is before fires_from, or too far ahead", field="fires_until", remedy="at most 35 days from now"
        )
    return start, end


@routes.get("/v1/jobs/{job_id}", Action.READ, scoped=True, answer=JobView)
async def get_job(call: Call) -> Reply:
    """Read a job."""
    store, job_id = call.store, call.identity("job")
    try:
        report = await store.lists.job_status(call.tenant_id, job_id)
        job = await store.reads.job(call.tenant_id, job_id)
    except InStream:
        return Reply(job_in_stream(call.tenant_id, job_id))
    return Reply(job_view(job, report.status), headers={"etag": f'"{job.version}"'})


@routes.delete("/v1/jobs/{job_id}", Action.CONTROL, scoped=True, answer=Deleted, problems=(409,))
async def delete_job(call: Call) -> Deleted:
    """Delete a job. Its history is kept until its retention ends."""
    job_id = call.identity("job")
    await call.store.replay.delete_job(call.tenant_id, job_id)
    await call.act("jobs.delete", show("job", job_id))
    return Deleted()


@routes.action("/v1/jobs/{job_id}/cancel", Action.CONTROL, scoped=True, answer=StatusAnswer, problems=(409,))
async def cancel_job(call: Call) -> StatusAnswer:
    """Cancel a job: it makes no further runs, and a running one is asked to stop."""
    job_id = call.identity("job")
    await call.store.control.cancel_job(call.tenant_id, job_id)
    return await _acted(call, "jobs.cancel")


@routes.action("/v1/jobs/{job_id}/pause", Action.CONTROL, scoped=True, answer=StatusAnswer, problems=(409,))
async def pause_job(call: Call) -> StatusAnswer:
    """Pause a job: it does not fire until it is resumed."""
    await call.store.control.pause_job(call.tenant_id, call.identity("job"))
    return await _acted(call, "jobs.pause")


@routes.action("/v1/jobs/{job_id}/resume", Action.CONTROL, scoped=True, answer=StatusAnswer, problems=(409,))
async def resume_job(call: Call) -> StatusAnswer:
    """Resume a job. Its misfire policy decides about missed occurrences."""
    await call.store.control.resume_job(call.tenant_id, call.identity("job"))
    return await _acted(call, "jobs.resume")


@routes.post(
    "/v1/jobs/{job_id}/backfill",
    Action.CONTROL,
    scoped=True,
    body=BackfillRequest,
    answer=Backfilled,
    status=202,
    problems=(409,),
    repeats="by handler",
)
async def backfill_job(call: Call) -> Reply:
    """Make the runs of a past range, at a given rate. Future occurrences are left out: they fire by themselves."""
    store, job_id, request = call.store, call.identity("job"), call.body
    job = await store.reads.job(call.tenant_id, job_id)
    start, end = check_moment(request.start, "start"), check_moment(request.end, "end")
    compute = call.service.computing.run
    fires = await compute(call.tenant_id, fires_between, job.schedule, start, end, request.limit)
    check_rate(request.rate)
    keyed = keyed_by_header(call, "backfill", job_id, start, end, request.limit, request.rate)
    backfill = Backfill(fires, request.rate)
    async with call.submitting(len(fires), call.header(HEADER)) as created:
        made = await store.control.backfill_job(call.tenant_id, job_id, backfill, os.urandom(8), keyed)
        created.count = 0 if keyed is not None and keyed.replayed else made
    await call.act("jobs.backfill", show("job", job_id), f"{made} runs")
    return Reply(Backfilled(show("job", job_id), made), headers=replay_headers(keyed))


async def _acted(call: Call, action: str) -> StatusAnswer:
    job_id = call.identity("job")
    await call.act(action, show("job", job_id))
    report = await call.store.lists.job_status(call.tenant_id, job_id)
    return StatusAnswer(show("job", job_id), report.status)


def _repeat(call: Call, in_body: str | None) -> Repeat | None:
    found = repeat_of(call)
    if found is not None and found.nonce is None and in_body is not None and found.key != in_body:
        raise Problem(
            INVALID_INPUT,
            "the Idempotency-Key header has another key",
            field="idempotency_key",
            remedy="give the key in one place",
        )
    return found
