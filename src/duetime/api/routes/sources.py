"""Sources: messages of other programs that create jobs."""

from duetime.api.call import Call
from duetime.api.decoding import fit
from duetime.api.endpoint import Routes
from duetime.api.job_maker import JobMaker
from duetime.api.problems import Problem
from duetime.api.service import Service
from duetime.api.task_registry import NO_TASKS
from duetime.errors import InvalidInput
from duetime.model.access import Action
from duetime.model.name import check_name
from duetime.model.source import Source, StoredSource, check_template, sample
from duetime.model.tenant import Tenant
from duetime.wire.jobs import Deleted, JobRequest
from duetime.wire.sources import BadMessage, SourceList, SourceRequest, SourceStatus, SourceView

routes = Routes("Sources")


@routes.get("/v1/sources", Action.READ, answer=SourceList)
async def list_sources(call: Call) -> SourceList:
    """List the sources."""
    return SourceList(tuple(_view(each) for each in await call.service.store.sources.sources(call.tenant_id)))


@routes.get("/v1/sources/{source}", Action.READ, answer=SourceView)
async def get_source(call: Call) -> SourceView:
    """Read a source."""
    return _view(await call.service.store.sources.source(call.tenant_id, call.path["source"]))


@routes.put("/v1/sources/{source}", Action.CONTROL, body=SourceRequest, answer=SourceView)
async def put_source(call: Call) -> SourceView:
    """Create or replace a source. One that is replaced continues where it was."""
    request: SourceRequest = call.body
    source = Source(check_name(call.path["source"], "source"), request.broker, request.job, request.key, request.on_bad)
    service = call.service
    service.targets.brokers.places(source.broker, "broker")
    await service.secrets.check(call.who, source.broker, "broker")
    check_template(source)
    target = _check_job(await call.tenant(), source, service).target
    try:
        await service.secrets.check(call.who, target)
    except InvalidInput as error:
        raise _of_job(error.message, error.field, error.remedy) from None
    stored = await service.store.sources.put_source(call.tenant_id, source, paused=request.paused)
    await call.act("sources.set", source.name)
    return _view(stored)


@routes.delete("/v1/sources/{source}", Action.CONTROL, answer=Deleted)
async def delete_source(call: Call) -> Deleted:
    """Delete a source. How far it was read is forgotten."""
    name = call.path["source"]
    await call.service.store.sources.delete_source(call.tenant_id, name)
    await call.act("sources.delete", name)
    return Deleted()


@routes.action("/v1/sources/{source}/pause", Action.CONTROL, answer=SourceView)
async def pause_source(call: Call) -> SourceView:
    """Pause a source: its messages wait at the broker."""
    return await _paused(call, paused=True)


@routes.action("/v1/sources/{source}/resume", Action.CONTROL, answer=SourceView)
async def resume_source(call: Call) -> SourceView:
    """Resume a source that was paused, or that a bad message has stopped."""
    return await _paused(call, paused=False)


async def _paused(call: Call, *, paused: bool) -> SourceView:
    name = call.path["source"]
    stored = await call.service.store.sources.pause_source(call.tenant_id, name, paused=paused)
    await call.act("sources.pause" if paused else "sources.resume", name)
    return _view(stored)


def _check_job(tenant: Tenant, source: Source, service: Service) -> JobRequest:
    """Check what of the template does not depend on a message."""
    try:
        request: JobRequest = fit(sample(source.job), JobRequest)
        JobMaker(
            tenant_id=tenant.id,
            max_payload=service.settings.max_payload,
            targets=service.targets,
            usual=tenant.defaults,
            known=NO_TASKS,
        ).make(request)
    except Problem as problem:
        raise _of_job(problem.detail or problem.kind.title, problem.field, problem.remedy) from None
    except InvalidInput as error:
        raise _of_job(error.message, error.field, error.remedy) from None
    return request


def _of_job(message: str, field: str | None, remedy: str | None) -> InvalidInput:
    return InvalidInput(message, field=f"job.{field}" if field else "job", remedy=remedy)


def _view(stored: StoredSource) -> SourceView:
    source = stored.source
    return SourceView(
        name=source.name,
        status=_status(stored),
        reason=stored.reason,
        broker=source.broker,
        job=source.job,
        key=source.key,
        on_bad=source.on_bad,
        received=stored.received,
        created=stored.made,
        repeated=stored.repeated,
        bad=stored.bad,
        bad_messages=tuple(BadMessage(each.message, each.error, each.at) for each in stored.errors),
    )


def _status(stored: StoredSource) -> SourceStatus:
    if stored.paused:
        return "paused"
    if stored.stopped:
        return "stopped"
    if not stored.held:
        return "idle"
    return "reading" if stored.reason is None else "waiting"
