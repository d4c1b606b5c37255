"""What duetime needs of a broker. One adapter per file; one contract suite checks them all
(`tests/contract/test_streams.py`).

A stream is a named queue of messages at a broker. A message is held by the consumer that fetched it until it is done.
If it is neither done nor extended for a lease, or its consumer is gone, it is delivered again, marked as redelivered.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from duetime.errors import StreamUnavailable

T = TypeVar("T")


async def answered(work: Awaitable[T], within: float | None) -> T:
    """The answer of a broker. Raises `StreamUnavailable` when it does not come within so many seconds."""
    try:
        async with asyncio.timeout(within):
            return await work
    except TimeoutError:
        raise StreamUnavailable(f"the broker did not answer within {within:.1f} s") from None


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A message that this consumer holds."""

    stream: str
    body: bytes
    redelivered: bool
    """Whether a consumer may have held it before. When the broker cannot tell, it is true."""
    ref: Any
    """The adapter's own handle."""


class Depth(NamedTuple):
    """What is in a stream: messages that are not done."""

    messages: int
    oldest: datetime | None
    """When the oldest of them was published, or earlier; None when there is none, or the broker cannot tell."""
    kept: timedelta | None = None
    """After how long the broker deletes messages that are not done; None: never."""
    counts_held: bool = True
    """Whether messages that consumers hold are among them; not every broker counts these."""


class Consumer(Protocol):
    """Used on one event loop. While one task waits in `fetch`, others may call `extend` and `done`."""

    async def fetch(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        """Up to so many messages of each stream. Without any, waits up to `wait` seconds for the first.

        What another consumer held, and has not extended for a lease, comes back marked as redelivered. A fetch that is
        cancelled loses no message: what it had received is returned by the next one, or redelivered.
        Raises `StreamUnavailable`.
        """

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        """Hold these messages for another lease. Raises `StreamUnavailable`."""

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        """These messages need no further delivery, and the broker may forget them. In any order; repeating it does no
        harm. Call it only after the store has committed what they say. Raises `StreamUnavailable`."""

    async def close(self) -> None:
        """Stop consuming. Messages that are not done are redelivered, at once if the broker can do that."""


@runtime_checkable
class PartConsumer(Consumer, Protocol):
    """A consumer that has parts of its streams, which no other consumer can fetch from."""

    def takes_part_in(self) -> frozenset[str]:
        """The streams that it consumes, at a broker that it reaches: also when there are too few parts for it."""

    def holds(self, delivery: Delivery) -> bool:
        """Whether it still has the part with this message; otherwise another consumer gets the message."""

    def leave(self, stream: str) -> None:
        """Give up its parts of a stream until it is fetched from again: as soon as nothing of them is held, or after
        half a lease. What was not handed out is not redelivered, but delivered to others."""


def leave_parts(consumer: Consumer, stream: str) -> None:
    """Let others have the parts of a stream, at a broker where that takes more than not to fetch."""
    if isinstance(consumer, PartConsumer):
        consumer.leave(stream)


class Broker(Protocol):
    """A connection to one broker, for one event loop."""

    shared: bool
    """Whether one stream serves all tenants of a queue, because the broker cannot hold many streams."""
    partitioned: bool
    """Whether each consumer has parts of a stream that no other consumer can fetch from."""
    largest: int
    """The maximum size of a message, in bytes."""

    async def open(self) -> None:
        """Connect. Raises `StreamUnavailable`."""

    async def close(self) -> None: ...

    async def check(self, streams: Sequence[str]) -> list[str]:
        """Check the broker's configuration for these streams, and create what is missing. Returns sentences that say
        what the operator must know, such as how durable a message is. Raises `InvalidInput`, with the remedy, when the
        configuration would lose messages, and `StreamUnavailable`."""

    async def publish(self, stream: str, bodies: Sequence[bytes], within: float | None = None) -> None:
        """Add messages to a stream, in order. Returns when the broker has acknowledged all of them as it is configured
        to. Raises `StreamUnavailable`, also after `within` seconds: any of them may have been added then."""

    async def depths(self, streams: Sequence[str], *, ages: bool = True) -> Mapping[str, Depth]:
        """The depth of each of these streams that exists. Without `ages`, `oldest` is left out where it takes longer.
        Raises `StreamUnavailable`."""

    async def consumer(self, streams: Sequence[str], name: str, lease: float) -> Consumer:
        """Consume these streams under this name, which no other live consumer has. `lease` is how many seconds a
        message is held without `extend`."""
