"""Real brokers that a run can strike: Redis behind a proxy, and three Kafka brokers.

What is published is watched from outside, with the plain clients of Redis and Kafka, so that copies of it can be
delivered at any later time. Whether the streams are empty in the end is read the same way, not through the product.
"""

import asyncio
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import redis.asyncio
from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient
from redis.exceptions import RedisError

from chaos.real.network import Proxy
from tests.support.broker_server import BrokerServer
from tests.support.jvm_servers import KafkaCluster, KafkaServer
from tests.support.redis_server import RedisServer

PREFIX = "chaos"
_GROUP = "duetime"
_ASKED = 10.0
"""Seconds for an answer of Kafka."""
_SETTLED = 5.0
"""Seconds without a change of owners, after which no consumer is about to join."""
_STARTED = 180.0
"""Seconds for its start, which takes long beside everything else."""


_RESET = """
local again = 0
for _, stream in ipairs(KEYS) do
    local pending = redis.pcall('XPENDING', stream, ARGV[1])
    if not pending.err and pending[1] > 0 then
        redis.call('XGROUP', 'SETID', stream, ARGV[1], '0')
        again = again + pending[1]
    end
end
return again
"""
"""In one step: a message that a worker holds may be done in the next millisecond."""


class Sent(NamedTuple):
    """A message that was seen in a stream."""

    t: float
    stream: str
    body: bytes


class StreamBroker(ABC):
    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self._tapping: asyncio.Task[None] | None = None

    @abstractmethod
    async def start(self) -> None: ...

    @abstractmethod
    def address(self, number: int) -> str:
        """Each number is a set of streams of its own."""

    @abstractmethod
    async def consumed(self) -> None:
        """Wait until every part of the streams has a consumer, and keeps it."""

    @abstractmethod
    async def kill(self, who: float) -> int:
        """End one of its processes like a crash; returns how much went through that one."""

    @abstractmethod
    async def revive(self) -> None: ...

    @abstractmethod
    async def publish(self, messages: Iterable[Sent]) -> None: ...

    @abstractmethod
    async def left(self) -> list[str]:
        """What is in the streams and not done, in words. Raises when it does not answer."""

    @abstractmethod
    async def tap(self) -> None:
        """Remember what is published, for ever."""

    def listen(self) -> None:
        self._tapping = asyncio.create_task(self.tap())

    async def close(self) -> None:
        if self._tapping is not None:
            self._tapping.cancel()
            await asyncio.gather(self._tapping, return_exceptions=True)


class Redis(StreamBroker):
    """One Redis that writes everything to its disk before it answers: nothing may be lost."""

    def __init__(self) -> None:
        super().__init__()
        self.server = RedisServer(appendfsync="always")
        self.proxy = Proxy(self.server.address)
        self._client = redis.asyncio.Redis(host="127.0.0.1", port=self.server.port, socket_timeout=5)

    async def start(self) -> None:
        await asyncio.to_thread(self.server.start)
        await self.proxy.start()

    def address(self, number: int) -> str:
        return f"redis://127.0.0.1:{urlsplit(self.proxy.dsn).port}/0?prefix={PREFIX}{number}"

    async def consumed(self) -> None: ...

    async def kill(self, who: float) -> int:
        lines = self.proxy.lines
        await asyncio.to_thread(self.server.kill)
        return lines

    async def revive(self) -> None:
        await asyncio.to_thread(self.server.start)

    async def publish(self, messages: Iterable[Sent]) -> None:
        async with self._client.pipeline(transaction=False) as pipeline:
            for message in messages:
                pipeline.xadd(message.stream, {b"m": message.body})
            await pipeline.execute()

    async def added(self) -> int:
        """How many messages were ever added."""
        found = [await self._client.xinfo_stream(stream) for stream in await self._streams()]
        return sum(int(each["entries-added"]) for each in found)

    async def reset(self) -> int:
        """Let the groups begin again with the oldest message that there is; returns how many messages will be delivered
        that were delivered before."""
        streams = await self._streams()
        return int(await self._client.eval(_RESET, len(streams), *streams, _GROUP))

    async def left(self) -> list[str]:
        found = [(stream, await self._client.xlen(stream)) for stream in await self._streams(refused=True)]
        return [f"{count} messages in {stream}" for stream, count in found if count]

    async def tap(self) -> None:
        last: dict[Any, Any] = {}
        while True:
            try:
                for stream in await self._streams():
                    last.setdefault(stream, "0")
                if not last:
                    await asyncio.sleep(0.1)
                    continue
                found: list[Any] = await self._client.xread(last, count=1000, block=500)  # type: ignore[assignment]
                for name, entries in found:
                    last[name.decode()] = entries[-1][0]
                    self.sent += [Sent(monotonic(), name.decode(), fields[b"m"]) for _, fields in entries]
            except (RedisError, OSError):
                await asyncio.sleep(0.2)

    async def close(self) -> None:
        await super().close()
        await self._client.aclose()
        await self.proxy.close()
        await asyncio.to_thread(self.server.close)

    async def _streams(self, *, refused: bool = False) -> list[str]:
        names = [name.decode() async for name in self._client.scan_iter(match=f"{PREFIX}*", count=1000)]
        return sorted(name for name in names if refused or not name.endswith("_refused"))


class Kafka(StreamBroker):
    """Three brokers; every message is on two of them before it is accepted."""

    def __init__(self) -> None:
        super().__init__()
        self._cluster = KafkaCluster()
        for node in self._cluster.nodes:
            node.seconds_to_start = _STARTED
        self._dead: KafkaServer | None = None
        self._client: dict[str, str | int | float | bool] = {
            "bootstrap.servers": ",".join(f"127.0.0.1:{node.port}" for node in self._cluster.nodes),
            "log_level": 0,
        }
        # Kept: a client that is dropped may wait for long for what it has asked.
        self._admin = AdminClient(self._client)
        self._groups: dict[str, Consumer] = {}

    async def start(self) -> None:
        await asyncio.to_thread(self._cluster.__enter__)

    def address(self, number: int) -> str:
        return f"{self._cluster.address}?prefix={PREFIX}{number}&partitions=6"

    async def kill(self, who: float) -> int:
        number = int(who * len(self._cluster.nodes))
        led = await asyncio.to_thread(self._led_by, number + 1)
        self._dead = self._cluster.nodes[number]
        await asyncio.to_thread(self._dead.kill)
        return led

    async def revive(self) -> None:
        dead, self._dead = self._dead, None
        assert dead is not None
        await asyncio.to_thread(dead.start)

    async def publish(self, messages: Iterable[Sent]) -> None:
        await asyncio.to_thread(self._publish, list(messages))

    async def consumed(self) -> None:
        parts = {(part.topic, part.partition) for part in await asyncio.to_thread(self._parts)}
        before, since = await self.owners(), monotonic()
        while before.keys() < parts or monotonic() - since < _SETTLED:
            await asyncio.sleep(0.2)
            if (owners := await self.owners()) != before:
                before, since = owners, monotonic()

    async def owners(self) -> dict[tuple[str, int], str]:
        """Which consumer has which partition."""
        return await asyncio.to_thread(self._owners)

    async def reset(self) -> int:
        """Let the groups, which must be without members, begin again with the oldest message that there is; returns how
        many messages will be delivered that were delivered before."""
        while await self.owners():
            await asyncio.sleep(0.3)
        return await asyncio.to_thread(self._reset)

    async def delivered(self) -> int:
        """How many messages it still has of those that are done."""
        return await asyncio.to_thread(self._delivered)

    async def left(self) -> list[str]:
        return await asyncio.to_thread(self._left)

    async def tap(self) -> None:
        client = {"group.id": "tap", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
        consumer = Consumer({**self._client, **client})
        try:
            consumer.subscribe([f"^{PREFIX}.*"])
            while True:
                for message in await asyncio.to_thread(consumer.consume, 1000, 0.5):
                    stream, body = message.topic(), message.value()
                    if message.error() is None and stream is not None and body is not None:
                        self.sent.append(Sent(monotonic(), stream, body))
        finally:
            consumer.close()

    async def close(self) -> None:
        await super().close()
        await asyncio.to_thread(self._cluster.__exit__)

    def _parts(self) -> list[TopicPartition]:
        topics = self._admin.list_topics(timeout=_ASKED).topics
        return [
            TopicPartition(name, part)
            for name, topic in topics.items()
            if name.startswith(PREFIX) and not name.endswith("_refused")
            for part in topic.partitions
        ]

    def _led_by(self, node: int) -> int:
        topics = self._admin.list_topics(timeout=_ASKED).topics
        return sum(part.leader == node for topic in topics.values() for part in topic.partitions.values())

    def _publish(self, messages: Sequence[Sent]) -> None:
        producer = Producer({**self._client, "acks": "all"})
        for message in messages:
            producer.produce(message.stream, message.body)
        if producer.flush(30.0):
            raise RuntimeError("Kafka did not take the copies")

    def _owners(self) -> dict[tuple[str, int], str]:
        groups = {part.topic for part in self._parts()}
        found = self._admin.describe_consumer_groups(list(groups), request_timeout=_ASKED)
        owners: dict[tuple[str, int], str] = {}
        for future in found.values():
            with contextlib.suppress(KafkaException):  # a group that never had a member
                for member in future.result().members:
                    for part in member.assignment.topic_partitions if member.assignment else ():
                        owners[part.topic, part.partition] = member.member_id
        return owners

    def _delivered(self) -> int:
        return sum(max(0, committed - low) for places in self._committed().values() for _, low, _, committed in places)

    def _reset(self) -> int:
        count = self._delivered()
        for topic, places in self._committed().items():
            first = [TopicPartition(topic, part, low) for part, low, _, _ in places]
            for future in self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(topic, first)]
            ).values():
                future.result(_ASKED)
        return count

    def _left(self) -> list[str]:
        found = []
        for topic, places in self._committed().items():
            count = sum(high - max(low, committed) for _, low, high, committed in places)
            found += [f"{count} messages in {topic}"] if count else []
        return found

    def _committed(self) -> dict[str, list[tuple[int, int, int, int]]]:
        """By topic: each partition, its first and next offset, and the committed one, or -1."""
        parts: dict[str, list[TopicPartition]] = {}
        for part in self._parts():
            parts.setdefault(part.topic, []).append(part)
        found: dict[str, list[tuple[int, int, int, int]]] = {}
        for topic, places in parts.items():
            if topic not in self._groups:
                self._groups[topic] = Consumer({**self._client, "group.id": topic, "enable.auto.commit": False})
            consumer = self._groups[topic]
            try:
                for place in consumer.committed(places, timeout=_ASKED):
                    if place.error is not None:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                    low, high = consumer.get_watermark_offsets(place, timeout=_ASKED)
                    offset = -1 if place.offset in (OFFSET_INVALID, None) else place.offset
                    found.setdefault(topic, []).append((place.partition, low, high, offset))
            except KafkaException:
                # A client that asks while its broker starts may not know a partition for minutes: another asks next.
                del self._groups[topic]
                raise
        return found


def make(kind: str) -> StreamBroker:
    return {"redis": Redis, "kafka": Kafka}[kind]()


def missing(kind: str) -> str | None:
    """Why there cannot be such a broker here."""
    servers: dict[str, type[BrokerServer]] = {"redis": RedisServer, "kafka": KafkaServer}
    return servers[kind].missing()
