"""What is checked when a queue is set to a stream, and what its operator is told."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from duetime.errors import Conflict, InvalidInput
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.model.lane import Tier
from duetime.store.protocol.streams import Streams
from duetime.streams.address import broker_at, endpoint_of
from duetime.streams.names import streams_of

MOST_STREAMS = 1000
"""At one broker, unless tenants share its streams. Earlier generations count until they are retired."""
_UNSEALED = (
    "This server has no encryption keys: everyone who can write to the broker can create runs, and everyone who can"
    " read from it sees their arguments."
)
_SHARED = "The broker has one stream for all tenants of a queue: a tenant with many runs delays those of the others."


class CheckedStream(NamedTuple):
    """A stream that was checked, and is not set yet."""

    settings: StreamSettings | None
    """None: through the store again."""
    generation: int = 0
    """The one whose streams were checked."""
    notes: Sequence[str] = ()
    """What the operator must know about it."""


async def check_change(
    streams: Streams,
    tenant_id: int,
    name: str,
    change: Callable[[StreamSettings | None], StreamSettings],
    *,
    sealed: bool,
) -> CheckedStream:
    """Check what a change makes of the settings of a queue (None: it has no stream). Nothing is set. Raises as
    `check_stream` does, and `Conflict` when the broker has as many streams as it may."""
    generations = [each for each in await streams.stream_queues(tenant_id) if each.queue == name]
    current = next((each for each in generations if each.current), None)
    settings = change(None if current is None else current.settings)
    if current is not None and current.settings.address == settings.address:
        generation = current.generation
    else:
        generation = max((each.generation for each in generations), default=0) + 1
    planned = StreamQueue(tenant_id, name, generation, settings, True, 0.0)
    if current is None or generation != current.generation:
        await _check_room(await streams.stream_queues(), planned)
    return CheckedStream(settings, generation, await check_stream(planned, sealed=sealed))


async def _check_room(queues: Sequence[StreamQueue], planned: StreamQueue) -> None:
    """Every stream of a broker that gives each tenant its own is asked for by every worker."""
    broker = await broker_at(planned.settings.address, replicas=planned.settings.replicas)
    place = endpoint_of(planned.settings.address)
    others = sum(endpoint_of(queue.settings.address) == place for queue in queues)
    if not broker.shared and (others + 1) * len(Tier) > MOST_STREAMS:
        raise Conflict(
            f"{others} queues go through this broker, with {others * len(Tier):,} streams, and it may have"
            f" {MOST_STREAMS:,}",
            field="stream",
            remedy="keep the queue in the store, use another broker, or Kafka or SQS, where tenants share streams",
        )


async def apply_change(streams: Streams, tenant_id: int, name: str, checked: CheckedStream) -> StreamQueue | None:
    made = await streams.set_stream(tenant_id, name, checked.settings)
    if made is not None and made.generation != checked.generation:
        await check_stream(made, sealed=True)  # another change came in between: create these streams too
    return made


async def check_stream(queue: StreamQueue, *, sealed: bool) -> list[str]:
    """Check the broker of a queue, and create the queue's streams there. Returns what the operator must know. Raises
    `InvalidInput` when messages could be lost, and `StreamUnavailable`."""
    broker = await broker_at(queue.settings.address, replicas=queue.settings.replicas)
    await broker.open()
    try:
        names = [name.text for name in streams_of(queue, shared=broker.shared).values()]
        said = await broker.check(names)
    finally:
        await broker.close()
    return [*said, *await notes_on(queue.settings, sealed=sealed)]


async def notes_on(settings: StreamSettings, *, sealed: bool) -> list[str]:
    """What is true of such a stream without asking its broker."""
    try:
        shared = (await broker_at(settings.address, replicas=settings.replicas)).shared
    except InvalidInput:
        shared = False  # its client library is not installed here
    return [text for text, applies in ((_SHARED, shared), (_UNSEALED, not sealed)) if applies]


def broker_name(address: str) -> str:
    """Which kind of broker an address names."""
    scheme = address.partition("://")[0].lower()
    return {"rediss": "redis", "amqps": "amqp"}.get(scheme, scheme)
