"""Queues, workers and tasks."""

from msgspec import UNSET

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.errors import InvalidInput, NotFound
from duetime.ids import show
from duetime.model.access import Action
from duetime.model.limits import QueueLimits, parse_rate
from duetime.model.name import check_name
from duetime.model.structs import struct_like
from duetime.model.tenant import Queue
from duetime.wire.fields import Nothing
from duetime.wire.service import (
    DepthView,
    QueueList,
    QueueRequest,
    QueueView,
    TaskList,
    TaskView,
    WorkerList,
    WorkerView,
)

routes = Routes("Queues and workers")


@routes.get("/v1/queues", Action.READ, answer=QueueList)
async def list_queues(call: Call) -> QueueList:
    """List the queues, with the number of waiting runs."""
    return QueueList(tuple(_view(queue) for queue in await call.service.store.queues.queues(call.tenant_id)))


@routes.get("/v1/queues/{queue}", Action.READ, answer=QueueView)
async def get_queue(call: Call) -> QueueView:
    """Read a queue. A queue that was never used is empty."""
    return _view(await call.service.store.queues.queue(call.tenant_id, _name(call)))


@routes.put("/v1/queues/{queue}", Action.STEER_QUEUES, body=QueueRequest, answer=QueueView)
async def put_queue(call: Call) -> QueueView:
    """Change the settings of a queue."""
    asked, store, name = call.body, call.service.store, _name(call)
    queue = await store.queues.queue(call.tenant_id, name)
    if asked.running is not UNSET or asked.rate is not UNSET:
        limits = QueueLimits(
            queue.limits.running if asked.running is UNSET else asked.running,
            queue.limits.rate if asked.rate is UNSET else None if asked.rate is None else parse_rate(asked.rate),
        )
        queue = await store.queues.limit_queue(call.tenant_id, name, limits)
        await call.act("queues.limit", name)
    if asked.paused is UNSET:
        return _view(queue)
    return await (_pause(call) if asked.paused else _resume(call))


@routes.post("/v1/queues/{queue}/pause", Action.STEER_QUEUES, body=Nothing, body_optional=True, answer=QueueView)
async def pause_queue(call: Call) -> QueueView:
    """Pause a queue: no run starts from it. Running ones continue."""
    return await _pause(call)


@routes.post("/v1/queues/{queue}/resume", Action.STEER_QUEUES, body=Nothing, body_optional=True, answer=QueueView)
async def resume_queue(call: Call) -> QueueView:
    """Resume a queue."""
    return await _resume(call)


@routes.get("/v1/workers", Action.READ, answer=WorkerList)
async def list_workers(call: Call) -> WorkerList:
    """List the workers of this tenant."""
    store = call.service.store
    now, found = await store.now(), await store.leases.workers(call.tenant_id)
    return WorkerList(
        tuple(
            struct_like(WorkerView, each, worker_id=show("wrk", each.id), alive=each.lease_until > now)
            for each in found
        )
    )


@routes.get("/v1/tasks", Action.READ, answer=TaskList)
async def list_tasks(call: Call) -> TaskList:
    """List the tasks that live workers provide."""
    found = await call.service.store.queues.tasks(call.tenant_id)
    return TaskList(tuple(struct_like(TaskView, each) for each in found))


async def _pause(call: Call) -> QueueView:
    queue = await call.service.store.queues.pause_queue(call.tenant_id, _name(call))
    await call.act("queues.pause", queue.name)
    return _view(queue)


async def _resume(call: Call) -> QueueView:
    queue = await call.service.store.queues.resume_queue(call.tenant_id, _name(call))
    await call.act("queues.resume", queue.name)
    return _view(queue)


def _name(call: Call) -> str:
    try:
        return check_name(call.path["queue"], "queue")
    except InvalidInput:
        raise NotFound("the queue does not exist") from None


def _view(queue: Queue) -> QueueView:
    limits = queue.limits
    return struct_like(
        QueueView,
        queue,
        depth=struct_like(DepthView, queue.depth),
        running_limit=limits.running,
        rate=None if limits.rate is None else str(limits.rate),
        running=None if limits.running is None else queue.running,
    )
