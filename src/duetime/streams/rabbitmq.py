"""RabbitMQ: a stream is a quorum queue.

    held          delivered on the consumer's channel and not acknowledged
    redelivered   when the connection of its consumer ends, or the consumer gives it back: RabbitMQ sets the flag
    done          acknowledged

RabbitMQ knows no lease. A process that dies loses its connection at once. The lease is the heartbeat of the connection:
one that hangs or is cut off loses it when it has sent nothing for about two leases. In a process that lives, the
consumer itself gives back what was not extended for a lease.

A fetch consumes with a prefetch of what it takes, and cancels its consumers before it returns, so a process holds only
what it starts. Messages may still arrive after that: they are returned by the next fetch.
"""

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from math import ceil
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from aiormq.abc import ConsumerCallback, DeliveredMessage
from aiormq.channel import Channel
from aiormq.exceptions import ChannelNotFoundEntity, ChannelPreconditionFailed
from pamqp.commands import Basic

from duetime.clock import monotonic
from duetime.errors import InvalidInput, StreamUnavailable, reason_of
from duetime.process.slices import batches
from duetime.streams.address import client_address
from duetime.streams.protocol import Delivery, Depth, answered
from duetime.streams.rabbitmq_link import FAILURES, TIMEOUT, RabbitLink
from duetime.streams.sizes import check_sizes
from duetime.streams.unbroken import Unbroken

_OPTIONS = frozenset({"cafile", "certfile", "keyfile"})
_HEARTBEAT = 15
"""Seconds between signs of life of a connection that holds no messages."""
_SHORTEST_HEARTBEAT = 2
_MOST, _MOST_BYTES = 500, 4 * 1024**2
"""Messages and bytes that are published before their confirmations are awaited."""
_QUIET = 0.02
"""Seconds in which messages that are there already arrive after the first one."""
_LOOK = 0.5
"""Seconds after which a read notices that its fetch was cancelled."""
_OLDEST, _LIMITS_DELIVERIES = (3, 8), (4, 0)


class RabbitBroker:
    shared = partitioned = False
    largest = 1024**2

    def __init__(self, address: str) -> None:
        self._url = client_address(address, _OPTIONS, "amqp://user:password@host:5672/vhost")
        self._link = _link(self._url, _HEARTBEAT)
        self._declared: set[str] = set()

    async def open(self) -> None:
        with _reaching():
            await self._link.channel()

    async def close(self) -> None:
        await self._link.close()

    async def check(self, streams: Sequence[str]) -> list[str]:
        with _reaching():
            await self._link.channel()
            if self._link.version < _OLDEST:
                raise InvalidInput("RabbitMQ is too old", field="stream", remedy="use RabbitMQ 3.8 or newer")
            for stream in streams:
                await self._declare(stream)
        return [
            "A message is accepted when a majority of the nodes that hold its queue have it on disk. "
            "RabbitMQ does not say how many these are: with one node, messages are as safe as its disk.",
            "No policy of RabbitMQ may limit the length of these queues or the age of their messages, "
            "or messages are lost.",
            "RabbitMQ does not count messages that workers hold.",
        ]

    async def publish(self, stream: str, bodies: Sequence[bytes], within: float | None = None) -> None:
        check_sizes(bodies, self.largest)
        await answered(self._publish(stream, bodies), within)

    async def _publish(self, stream: str, bodies: Sequence[bytes]) -> None:
        with _reaching():
            if stream not in self._declared:
                await self._declare(stream)
            channel = await self._link.channel()
            for batch in batches(bodies, _MOST, _MOST_BYTES, len):
                # The channel sends them in the order of these calls.
                answers = await asyncio.gather(
                    *(_publish(channel, stream, body) for body in batch), return_exceptions=True
                )
                for answer in answers:
                    if isinstance(answer, BaseException):
                        self._declared.discard(stream)
                        raise answer

    async def depths(self, streams: Sequence[str], *, ages: bool = True) -> Mapping[str, Depth]:
        found = {}
        with _reaching():
            for stream in streams:
                with suppress(ChannelNotFoundEntity):
                    found[stream] = Depth(await self._messages(stream), None, counts_held=False)
        return found

    async def consumer(self, streams: Sequence[str], name: str, lease: float) -> "RabbitConsumer":
        with _reaching():
            for stream in streams:
                await self._declare(stream)
        return RabbitConsumer(self._url, lease)

    async def _declare(self, stream: str) -> None:
        """Create the queue, unless it exists: then its settings are left alone."""
        with suppress(ChannelNotFoundEntity):
            await self._messages(stream)
            self._declared.add(stream)
            return
        channel = await self._link.channel()
        arguments: dict[str, Any] = {"x-queue-type": "quorum"}
        if self._link.version >= _LIMITS_DELIVERIES:
            arguments["x-delivery-limit"] = -1  # otherwise RabbitMQ drops a message after 20 deliveries
        await channel.queue_declare(stream, durable=True, arguments=arguments, timeout=TIMEOUT)
        self._declared.add(stream)

    async def _messages(self, stream: str) -> int:
        channel = await self._link.channel()
        declared = await channel.queue_declare(stream, passive=True, timeout=TIMEOUT)
        return declared.message_count or 0


class RabbitConsumer:
    def __init__(self, url: str, lease: float) -> None:
        self._link = _link(url, max(_SHORTEST_HEARTBEAT, ceil(lease)))
        self._lease = lease
        self._channel: Channel | None = None
        self._arrived: defaultdict[str, deque[Delivery]] = defaultdict(deque)
        self._held: dict[int, float] = {}
        """The tags of what was delivered on this channel and is not done, and until when each is held."""
        self._consuming: set[str] = set()
        """The tags of consumers that are not cancelled."""
        self._consumed = 0
        self._answering = asyncio.Lock()
        """An answer to many messages must not cover one whose own answer is on its way."""
        self._reading = Unbroken[None]()
        self._news = asyncio.Event()
        """Set when a message has arrived, and when the channel was closed."""
        self._giving_back = asyncio.create_task(self._give_back(), name="duetime messages to give back")

    async def fetch(self, takes: Sequence[tuple[str, int]], wait: float) -> list[Delivery]:
        takes = [take for take in takes if take[1] > 0]
        until = monotonic() + wait
        with _reaching():
            await self._reading.finish()
            found = self._taken(takes)
            if not found and takes:
                await self._reading.run(self._read(takes, until))
                found = self._taken(takes)
            return found

    async def extend(self, deliveries: Sequence[Delivery]) -> None:
        with _reaching():
            channel = await self._current()
            until = monotonic() + self._lease
            self._held.update(dict.fromkeys(self._tags(channel, deliveries), until))

    async def done(self, deliveries: Sequence[Delivery]) -> None:
        with _reaching():
            channel = await self._current()
            async with self._answering:
                tags = self._tags(channel, deliveries)
                for tag in tags:
                    del self._held[tag]
                # Everything below the first message that is still held goes with one answer.
                first = min(self._held, default=None)
                together = {tag for tag in tags if first is None or tag < first}
                for tag in sorted(tags - together):
                    await channel.basic_ack(tag, wait=False)
                if together:
                    await channel.basic_ack(max(together), multiple=True)

    async def close(self) -> None:
        self._giving_back.cancel()
        await asyncio.gather(self._giving_back, return_exceptions=True)
        await self._reading.cancel()
        await self._link.close()

    def _tags(self, channel: Channel, deliveries: Sequence[Delivery]) -> set[int]:
        """Which of these are held. What arrived on an earlier channel was redelivered when that ended."""
        return {tag for on, tag in (each.ref for each in deliveries) if on is channel} & self._held.keys()

    async def _give_back(self) -> None:
        while True:
            await asyncio.sleep(self._lease / 4)
            async with self._answering:
                now, channel = monotonic(), self._channel
                late = {tag for tag, until in self._held.items() if until < now}
                if not late or channel is None or channel.is_closed:
                    continue
                for stream, arrived in self._arrived.items():
                    self._arrived[stream] = deque(each for each in arrived if each.ref[1] not in late)
                for tag in late:
                    del self._held[tag]
                for tag in late:
                    with suppress(*FAILURES):
                        await channel.basic_nack(tag, requeue=True)

    async def _read(self, takes: Sequence[tuple[str, int]], until: float) -> None:
        channel = await self._current()
        await self._stop(channel)  # after an error, consumers may be left
        await self._start(channel, takes)
        await self._wait(channel, takes, until)
        await self._stop(channel)

    async def _current(self) -> Channel:
        """The channel. After an outage it is a new one, and holds nothing."""
        channel = await self._link.channel()
        if channel is not self._channel:
            self._channel = channel
            self._arrived.clear()
            self._held.clear()
            self._consuming.clear()
            channel.consumers = _Always(lambda message: self._arrive(channel, message))
            channel.closing.add_done_callback(lambda _: self._news.set())
        return channel

    async def _arrive(self, channel: Channel, message: DeliveredMessage) -> None:
        delivery = message.delivery
        assert isinstance(delivery, Basic.Deliver)
        if channel is self._channel and delivery.delivery_tag and delivery.consumer_tag:
            self._held[delivery.delivery_tag] = monotonic() + self._lease
            stream, again = delivery.consumer_tag.partition("~")[0], bool(delivery.redelivered)
            self._arrived[stream].append(Delivery(stream, message.body, again, (channel, delivery.delivery_tag)))
            self._news.set()

    async def _start(self, channel: Channel, takes: Sequence[tuple[str, int]]) -> None:
        prefetch = 0
        for stream, count in sorted(takes, key=lambda take: take[1]):
            if count != prefetch:
                prefetch = count
                await channel.basic_qos(prefetch_count=min(count, _MOST), timeout=TIMEOUT)
            # RabbitMQ counts what is held against the prefetch of the tag under which it was delivered.
            self._consumed += 1
            tag = f"{stream}~{self._consumed}"
            self._consuming.add(tag)
            await channel.basic_consume(stream, _nothing, consumer_tag=tag, timeout=TIMEOUT)

    async def _stop(self, channel: Channel) -> None:
        while self._consuming and not channel.is_closed:
            tag = next(iter(self._consuming))
            await channel.basic_cancel(tag, timeout=TIMEOUT)
            self._consuming.discard(tag)

    async def _wait(self, channel: Channel, takes: Sequence[tuple[str, int]], until: float) -> None:
        """Until a message has arrived, and then as long as others may follow."""
        wanted = sum(min(count, _MOST) for _, count in takes)
        until = max(until, monotonic() + _QUIET)
        arrived = 0
        while arrived < wanted and monotonic() < until and not self._reading.abandoned.is_set():
            self._news.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(min(until - monotonic(), _LOOK)):
                    await self._news.wait()
            if channel.is_closed:
                raise StreamUnavailable("RabbitMQ: the connection was closed")
            if not arrived and self._news.is_set():
                until = min(until, monotonic() + _QUIET)
            arrived = sum(len(self._arrived[stream]) for stream, _ in takes)

    def _taken(self, takes: Sequence[tuple[str, int]]) -> list[Delivery]:
        found = []
        for stream, count in takes:
            arrived = self._arrived[stream]
            found += [arrived.popleft() for _ in range(min(count, len(arrived)))]
        return found


def _link(url: str, heartbeat: int) -> RabbitLink:
    parts = urlsplit(url)
    return RabbitLink(urlunsplit(parts._replace(query=f"{parts.query}&heartbeat={heartbeat}".lstrip("&"))))


class _Always(dict[str, ConsumerCallback]):
    """The client forgets a consumer when it is cancelled, and drops what arrives for it later: such a message would be
    held for ever. This always knows a consumer."""

    def __init__(self, callback: ConsumerCallback) -> None:
        super().__init__()
        self._callback = callback

    def get(self, *_: Any) -> ConsumerCallback:
        return self._callback


# What it would log is raised as `StreamUnavailable`, with each attempt to reconnect.
logging.getLogger("aiormq").setLevel(logging.CRITICAL)


@contextmanager
def _reaching() -> Iterator[None]:
    try:
        yield
    except ChannelPreconditionFailed as error:
        raise InvalidInput(
            f"RabbitMQ refuses the queue: {reason_of(error)}", field="stream", remedy="delete the queue in RabbitMQ"
        ) from None
    except FAILURES as error:
        raise StreamUnavailable(f"RabbitMQ: {reason_of(error)}") from error


async def _publish(channel: Channel, stream: str, body: bytes) -> None:
    properties = Basic.Properties(delivery_mode=2)
    await channel.basic_publish(
        body, routing_key=stream, properties=properties, mandatory=True, timeout=TIMEOUT, wait=False
    )


async def _nothing(_: DeliveredMessage) -> None:
    """`_Always` answers for every consumer."""
