"""What is checked when a queue is set to a stream, and what its operator is told."""

from duetime.errors import InvalidInput
from duetime.model.carried import StreamQueue, StreamSettings
from duetime.streams.address import broker_at
from duetime.streams.names import streams_of

_UNSEALED = (
    "This server has no encryption keys: everyone who can write to the broker can create runs, and everyone who can"
    " read from it sees their arguments."
)
_SHARED = "The broker has one stream for all tenants of a queue: a tenant with many runs delays those of the others."


async def check_stream(queue: StreamQueue, *, sealed: bool) -> list[str]:
    """Check the broker of a queue, and create the queue's streams there. Returns what the operator must know. Raises
    `InvalidInput` when messages could be lost, and `StreamUnavailable`."""
    broker = broker_at(queue.settings.address, replicas=queue.settings.replicas)
    await broker.open()
    try:
        names = [name.text for name in streams_of(queue, shared=broker.shared).values()]
        said = await broker.check(names)
    finally:
        await broker.close()
    return [*said, *notes_on(queue.settings, sealed=sealed)]


def notes_on(settings: StreamSettings, *, sealed: bool) -> list[str]:
    """What is true of such a stream without asking its broker."""
    try:
        shared = broker_at(settings.address, replicas=settings.replicas).shared
    except InvalidInput:
        shared = False  # its client library is not installed here
    return [text for text, told in ((_SHARED, shared), (_UNSEALED, not sealed)) if told]


def broker_name(address: str) -> str:
    """Which kind of broker an address names."""
    scheme = address.partition("://")[0].lower()
    return {"rediss": "redis", "amqps": "amqp"}.get(scheme, scheme)
