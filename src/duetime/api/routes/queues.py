"""Queues, workers and tasks."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.api.problems import BROKER_UNAVAILABLE, FORBIDDEN, RETRY_SOON, Problem
from duetime.api.stream_views import in_streams
from duetime.engine.queue_figures import WINDOW
from duetime.errors import InvalidInput, NotFound, StreamUnavailable
from duetime.ids import show
from duetime.model.access import Action, Role
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.model.demand import Activity, QueueActivity
from duetime.model.limits import QueueLimits, parse_rate
from duetime.model.name import check_name
from duetime.model.structs import struct_like
from duetime.model.tenant import Queue, QueueHead
from duetime.model.worker import PastWorker
from duetime.process.slices import Slices, mapped
from duetime.store.rules.stream_limits import are_set, limited_queue
from duetime.streams.address import shown_address
from duetime.streams.setup import CheckedStream, apply_change, broker_name, check_change, notes_on
from duetime.wire.fields import InStreamView
from duetime.wire.service import (
    DepthView,
    HeldRunView,
    PastWorkerView,
    QueueList,
    QueueRequest,
    QueueView,
    StreamRequest,
    StreamView,
    TaskDetails,
    TaskList,
    TaskView,
    WorkerList,
    WorkerView,
)

routes = Routes("Queues and workers")
_PAST_TASKS = 20


@routes.get("/v1/queues", Action.READ, answer=QueueList)
async def list_queues(call: Call) -> QueueList:
    """List the queues, with the number of waiting runs."""
    found = {queue.name: queue for queue in await call.service.store.queues.queues(call.tenant_id)}
    facts = await _facts(call)
    for name in facts.streams:
        found.setdefault(name, Queue(call.tenant_id, name))
    views, slices = [], Slices()
    for name in sorted(found):
        views.append(await _view(call, found[name], facts))
        await slices.yield_if_due()
    return QueueList(tuple(views))


@routes.get("/v1/queues/{queue}", Action.READ, answer=QueueView)
async def get_queue(call: Call) -> QueueView:
    """Read a queue. A queue that was never used is empty."""
    return await _shown(call, await call.service.store.queues.queue(call.tenant_id, queue_name(call)))


@routes.put("/v1/queues/{queue}", Action.STEER_QUEUES, body=QueueRequest, answer=QueueView, problems=(409,))
async def put_queue(call: Call) -> QueueView:
    """Change the settings of a queue. Its stream needs a root key; the server checks the broker first."""
    asked, store, name = call.body, call.service.store, queue_name(call)
    queue = await store.queues.queue(call.tenant_id, name)
    limits = QueueLimits(
        queue.limits.running if asked.running is UNSET else asked.running,
        queue.limits.rate if asked.rate is UNSET else None if asked.rate is None else parse_rate(asked.rate),
    )
    stream = None if asked.stream is UNSET else await _checked(call, name, asked.stream, limits)
    if stream is not None and stream.settings is None:
        await _set_stream(call, name, stream)
    if asked.running is not UNSET or asked.rate is not UNSET:
        queue = await store.queues.limit_queue(call.tenant_id, name, limits)
        await call.act("queues.limit", name)
    if stream is not None and stream.settings is not None:
        await _set_stream(call, name, stream)
    if asked.paused is not UNSET:
        queue = await (_pause(call) if asked.paused else _resume(call))
    return await _shown(call, queue, () if stream is None else stream.notes)


@routes.action("/v1/queues/{queue}/pause", Action.STEER_QUEUES, answer=QueueView)
async def pause_queue(call: Call) -> QueueView:
    """Pause a queue: no run starts from it. Running ones continue."""
    return await _shown(call, await _pause(call))


@routes.action("/v1/queues/{queue}/resume", Action.STEER_QUEUES, answer=QueueView)
async def resume_queue(call: Call) -> QueueView:
    """Resume a queue."""
    return await _shown(call, await _resume(call))


@routes.get("/v1/workers", Action.READ, answer=WorkerList)
async def list_workers(call: Call) -> WorkerList:
    """List the workers of this tenant, and those that left or were lost within a day."""
    store = call.service.store
    now, found = await store.now(), await store.leases.workers(call.tenant_id)
    held = await call.service.held_slots.share(None, store.notifications.held_slots) if found else {}
    sees_all = _is_root(call)
    return WorkerList(
        tuple(
            struct_like(
                WorkerView,
                each,
                worker_id=show("wrk", each.id),
                alive=each.lease_until > now,
                running=held.get(each.id, 0) if sees_all or each.tenant_id is not None else None,
            )
            for each in found
        ),
        tuple(_past(each) for each in await store.leases.past_workers(call.tenant_id)),
    )


def _past(worker: PastWorker) -> PastWorkerView:
    return struct_like(
        PastWorkerView,
        worker,
        worker_id=show("wrk", worker.id),
        state="LOST" if worker.lost else "ENDED",
        tasks=worker.tasks[:_PAST_TASKS],
        task_count=len(worker.tasks),
        runs=tuple(
            HeldRunView(show("run", run.run_id), run.task, run.state.name)  # type: ignore[arg-type]
            for run in worker.runs
        ),
    )


@routes.get("/v1/tasks", Action.READ, answer=TaskList)
async def list_tasks(call: Call) -> TaskList:
    """List the tasks that live workers provide."""
    found = await call.service.store.queues.tasks(call.tenant_id)
    return TaskList(tuple(await mapped(partial(struct_like, TaskView), found)))


@routes.get("/v1/tasks/{task}", Action.READ, answer=TaskDetails, problems=(404,))
async def get_task(call: Call) -> TaskDetails:
    """Get a task that live workers provide, with the JSON schema of its arguments."""
    task, store = call.path["task"], call.service.store
    found = await store.queues.tasks(call.tenant_id, task)
    if not found:
        raise NotFound("no live worker provides the task")
    digest = (await store.queues.task_schemas(call.tenant_id, task)).get(task)
    schemas = {} if digest is None else await store.queues.schemas(call.tenant_id, [digest])
    # Not decoded: the order of the parameters is that of the fields in a form.
    arguments = None if digest not in schemas else msgspec.Raw(schemas[digest])
    return struct_like(TaskDetails, found[0], arguments=arguments)


async def _pause(call: Call) -> Queue:
    queue = await call.service.store.queues.pause_queue(call.tenant_id, queue_name(call))
    await call.act("queues.pause", queue.name)
    return queue


async def _resume(call: Call) -> Queue:
    queue = await call.service.store.queues.resume_queue(call.tenant_id, queue_name(call))
    await call.act("queues.resume", queue.name)
    return queue


async def _checked(call: Call, name: str, asked: StreamRequest | None, limits: QueueLimits) -> CheckedStream:
    if not _is_root(call):
        # The server connects to the address.
        raise Problem(FORBIDDEN, "only a root key may set the stream of a queue", field="stream")
    if asked is None:
        return CheckedStream(None)
    if are_set(limits):
        raise limited_queue()
    streams, sealed = call.service.store.streams, call.service.sealer.has_key
    try:
        return await check_change(streams, call.tenant_id, name, lambda before: _changed(before, asked), sealed=sealed)
    except StreamUnavailable as error:
        # Told here, unlike elsewhere: only root gets this far, and the address may be what is wrong.
        raise Problem(
            BROKER_UNAVAILABLE,
            f"{error.message}: nothing was changed",
            field="stream.address",
            remedy=error.remedy or "check the address, the login and that the broker runs",
            headers={"retry-after": RETRY_SOON},
        ) from None


async def _set_stream(call: Call, name: str, checked: CheckedStream) -> None:
    made = await apply_change(call.service.store.streams, call.tenant_id, name, checked)
    # The tenant's administrators read this, and only a root key sees addresses.
    detail = "store" if made is None else f"{broker_name(made.settings.address)}, generation {made.generation}"
    await call.act("queues.stream", name, detail)


def _is_root(call: Call) -> bool:
    return call.who.role is Role.ROOT


def _changed(before: StreamSettings | None, asked: StreamRequest) -> StreamSettings:
    given = {name: value for name, value in msgspec.structs.asdict(asked).items() if value is not UNSET}
    if before is not None:
        return msgspec.structs.replace(before, **given)
    if "address" not in given:
        raise InvalidInput(
            "`address` is required: the queue goes through the store", field="stream", remedy="such as redis://host/0"
        )
    return StreamSettings(**given)


def queue_name(call: Call) -> str:
    try:
        return check_name(call.path["queue"], "queue")
    except InvalidInput:
        raise NotFound("the queue does not exist") from None


async def _shown(call: Call, queue: Queue, notes: Sequence[str] = ()) -> QueueView:
    return await _view(call, queue, await _facts(call, queue.name), notes)


class _Facts(NamedTuple):
    """What is known of queues beside their settings."""

    activity: Activity
    """What they did in the last minute."""
    heads: Mapping[str, QueueHead]
    """What waits in them."""
    streams: Mapping[str, Sequence[StreamQueue]]
    inside: Mapping[str, Sequence[InStreamView]]


async def _facts(call: Call, queue: str | None = None) -> _Facts:
    """Those of all queues, or of one."""
    store = call.service.store
    activity = await call.service.seen_activity.share(True, lambda: store.demand.activity(WINDOW))
    heads = await store.queues.queue_heads(call.tenant_id, activity.since, queue)
    streams: dict[str, list[StreamQueue]] = defaultdict(list)
    for each in await store.streams.stream_queues(call.tenant_id):
        streams[each.queue].append(each)
    inside: dict[str, list[InStreamView]] = defaultdict(list)
    for content in await in_streams(call, queue) if streams and (queue is None or queue in streams) else ():
        inside[content.queue].append(content)
    return _Facts(activity, heads, streams, inside)


async def _view(call: Call, queue: Queue, facts: _Facts, notes: Sequence[str] = ()) -> QueueView:
    limits, head, activity = queue.limits, facts.heads.get(queue.name), facts.activity
    now = activity.queues.get((queue.tenant_id, queue.name), QueueActivity())
    generations = facts.streams.get(queue.name, ())
    current = next((each for each in generations if each.current), None)
    if current is not None and not notes:
        notes = await notes_on(current.settings, sealed=call.service.sealer.has_key)
    return struct_like(
        QueueView,
        queue,
        depth=struct_like(DepthView, queue.depth),
        running_limit=limits.running,
        rate=None if limits.rate is None else str(limits.rate),
        running=now.running if limits.running is None else queue.running,
        kind="store" if current is None else "stream",
        stream=None if current is None else _stream_view(call, current),
        earlier_streams=sum(not each.current for each in generations),
        in_streams=tuple(facts.inside.get(queue.name, ())),
        notes=tuple(notes),
        oldest_at=None if head is None else head.oldest,
        arrival_rate=round(activity.rate(now.arrived + (0 if head is None else head.arrived)), 3),
        completion_rate=round(activity.rate(now.ended), 3),
    )


def _stream_view(call: Call, stream: StreamQueue) -> StreamView:
    address = stream.settings.address
    shown = shown_address(address) if _is_root(call) else None
    named = {"broker": broker_name(address), "address": shown, "generation": stream.generation}
    return struct_like(StreamView, stream.settings, **named)
