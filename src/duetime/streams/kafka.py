"""Kafka: a stream is a topic, and its consumers are one group.

    held          offsets that were started and are not done: at most 4,096 beyond the committed one per partition
    redelivered   the new owner of a partition finds what may have been started in the committed metadata
    done          the committed offset is that of the first message that is not done; metadata lists those after it

`kafka_offsets` counts, `kafka_reader` reads and commits, `kafka_checks` creates topics and refuses unsafe ones. A
message is accepted when all in-sync replicas have it. Messages are never removed by age, only when they are done.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from duetime.clock import monotonic
from duetime.errors import StreamUnavailable
from duetime.process.slices import batches
from duetime.streams.kafka_address import parse
from duetime.streams.kafka_checks import answer, check_topics, ends_of, kept_by, partitions_of
from duetime.streams.kafka_consumer import KafkaConsumer
from duetime.streams.kafka_offsets import PartitionOffsets
from duetime.streams.kafka_reader import TIMEOUT, unavailable
from duetime.streams.kafka_watch import StreamWatch
from duetime.streams.protocol import Delivery, Depth, answered
from duetime.streams.sizes import check_sizes

__all__ = ["Delivery", "KafkaBroker"]

_TOGETHER_BYTES = 1_000_000
_TOGETHER = 500
"""Messages of one batch, which go to one partition."""
_ATTEMPT = 2.0
"""Seconds after which a partition is given up, and another one tried."""
_ATTEMPTS = 2
_AVOID = 10.0
"""Seconds for which a partition is avoided that did not accept messages."""
_KEEP = 5.0
"""Seconds for which the age of the oldest message is kept: reading it means fetching it."""
_KEPT_FOR = 300.0
"""Seconds for which the retention of a topic is cached."""


class KafkaBroker:
    shared = partitioned = True

    def __init__(self, address: str) -> None:
        self._address = parse(address)
        self.largest = self._address.largest
        self._client: dict[str, Any] = {
            **self._address.client,
            "client.id": "duetime",
            "log_level": 0,
            "socket.keepalive.enable": True,
            "socket.timeout.ms": int(TIMEOUT * 1000) + 1000,
            "socket.connection.setup.timeout.ms": int(TIMEOUT * 1000),
            "reconnect.backoff.max.ms": 1000,
        }
        self._admin: AdminClient | None = None
        self._sender: _Sender | None = None
        self._oldest: dict[tuple[str, int], tuple[int, datetime, float]] = {}
        self._kept: dict[str, tuple[float, timedelta | None]] = {}
        self._watches: dict[str, StreamWatch] = {}

    async def open(self) -> None:
        admin = AdminClient(dict(self._client))
        try:
            await asyncio.to_thread(partial(admin.list_topics, timeout=TIMEOUT))
        except KafkaException as error:
            raise unavailable(error) from error
        self._admin = admin
        self._sender = _Sender(self._client)

    async def close(self) -> None:
        sender, self._sender = self._sender, None
        watches, self._watches = self._watches, {}
        for watch in watches.values():
            await watch.close()
        if sender is not None:
            await asyncio.to_thread(sender.close)
        if self._admin is not None:
            # The client waits for what it has asked for; the process does not.
            forgotten = [self._admin]
            self._admin = None
            threading.Thread(target=forgotten.clear, name="kafka close", daemon=True).start()

    async def check(self, streams: Sequence[str]) -> list[str]:
        if not streams:
            return []
        return await check_topics(self._opened(), self._watch, self._address, streams)

    async def publish(self, stream: str, bodies: Sequence[bytes], within: float | None = None) -> None:
        check_sizes(bodies, self.largest)
        if self._sender is None:
            raise StreamUnavailable("the connection to Kafka is not open")
        await answered(self._sender.send(stream, bodies), within)

    async def depths(self, streams: Sequence[str], *, ages: bool = True) -> Mapping[str, Depth]:
        admin = self._opened()
        found = await partitions_of(admin, streams)
        places = [TopicPartition(stream, part.id) for stream, parts in found.items() for part in parts]
        if not places:
            return {}
        known = {
            (place.topic, place.partition): place
            for stream, parts in found.items()
            for place in await self._watch(stream).committed([TopicPartition(stream, part.id) for part in parts])
            if place.offset >= 0
        }
        ends = await ends_of(admin, places)
        depths = dict.fromkeys(found, 0)
        first: list[TopicPartition] = []
        for place in places:
            low, end = ends[place]
            committed = known.get((place.topic, place.partition))
            offset = low if committed is None else max(low, committed.offset)
            state = None if committed is None else PartitionOffsets.committed(committed.offset, committed.metadata)
            if offset >= end:
                continue
            depths[place.topic] += max(1, end - offset - (state.done_ahead if state else 0))
            first.append(TopicPartition(place.topic, place.partition, offset))
        times = await self._times(first) if ages else {}
        oldest = {stream: [at for place, at in times.items() if place[0] == stream] for stream in depths}
        return {
            stream: Depth(depth, min(oldest[stream], default=None), await self._kept_by(stream))
            for stream, depth in depths.items()
        }

    async def consumer(self, streams: Sequence[str], name: str, lease: float) -> KafkaConsumer:
        milliseconds = int(lease * 1000)
        client = {
            **self._client,
            "client.id": name,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": milliseconds,
            # The reader leaves by itself when it is not called for a lease. While it waits for what is held, before it
            # gives a partition up, it does not poll.
            "max.poll.interval.ms": max(60_000, 4 * milliseconds),
            "heartbeat.interval.ms": min(3000, milliseconds // 5),
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "auto.offset.reset": "earliest",
            "allow.auto.create.topics": False,
            "queued.min.messages": 5000,
            "queued.max.messages.kbytes": 16384,
            "fetch.wait.max.ms": 500,
            # When enough is read ahead, the next request would wait for a second, also when all is taken meanwhile.
            "fetch.queue.backoff.ms": 10,
        }
        return KafkaConsumer(streams, client, lease, self._trim)

    async def _kept_by(self, stream: str) -> timedelta | None:
        now = monotonic()
        read_at, found = self._kept.get(stream, (None, None))
        if read_at is None or now - read_at > _KEPT_FOR:
            found = await kept_by(self._opened(), stream)
            self._kept[stream] = now, found
        return found

    async def _trim(self, places: Sequence[TopicPartition]) -> None:
        for future in self._opened().delete_records(list(places), request_timeout=TIMEOUT).values():
            await answer(future)

    async def _times(self, places: Sequence[TopicPartition]) -> dict[tuple[str, int], datetime]:
        """When the messages at these places were published, or those before them."""
        now = monotonic()
        unknown = []
        for place in places:
            kept = self._oldest.get((place.topic, place.partition))
            if kept is None or kept[0] > place.offset or (kept[0] < place.offset and now - kept[2] > _KEEP):
                unknown.append(place)
        for stream in {place.topic for place in unknown}:
            for message in await self._watch(stream).first([place for place in unknown if place.topic == stream]):
                number, offset = message.partition(), message.offset()
                assert number is not None
                assert offset is not None
                published = datetime.fromtimestamp(message.timestamp()[1] / 1000, UTC)
                self._oldest[stream, number] = (offset, published, now)
        keys = [(place.topic, place.partition) for place in places]
        return {key: self._oldest[key][1] for key in keys if key in self._oldest}

    def _watch(self, stream: str) -> StreamWatch:
        if stream not in self._watches:
            self._watches[stream] = StreamWatch(stream, self._client)
        return self._watches[stream]

    def _opened(self) -> AdminClient:
        if self._admin is None:
            raise StreamUnavailable("the connection to Kafka is not open")
        return self._admin


class _Sender:
    """The idempotent producer of one process, and the thread in which its acknowledgements arrive."""

    def __init__(self, client: Mapping[str, Any]) -> None:
        self._producer = Producer(
            {
                **client,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": int(_ATTEMPT * 1000),
                "request.timeout.ms": int(_ATTEMPT * 1000),
                "message.max.bytes": 100_000_000,  # the topic decides
            }
        )
        self._partitions: dict[str, int] = {}
        self._avoided: dict[tuple[str, int], float] = {}
        self._turn = count()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="kafka acknowledgements", daemon=True)
        self._thread.start()

    async def send(self, stream: str, bodies: Sequence[bytes]) -> None:
        for attempt in range(1, _ATTEMPTS + 1):
            total = self._partitions.get(stream) or await self._count(stream)
            sent = [
                self._put(stream, self._next(stream, total), batch)
                for batch in batches(bodies, _TOGETHER, _TOGETHER_BYTES, len)
            ]
            left: list[bytes] = []
            error: KafkaError | None = None
            for batch in sent:
                await batch.ended
                if batch.error is not None:
                    self._avoided[stream, batch.partition] = monotonic() + _AVOID
                    left += batch.failed
                    error = batch.error
            if error is None:
                return
            self._partitions.pop(stream, None)
            if attempt == _ATTEMPTS or not _worth_another(error):
                raise unavailable(KafkaException(error))
            bodies = left

    def close(self) -> None:
        self._producer.flush(_ATTEMPT)
        self._closed.set()
        self._thread.join()

    def _put(self, stream: str, partition: int, bodies: Sequence[bytes]) -> "_Batch":
        batch = _Batch(partition, len(bodies))
        for place, body in enumerate(bodies):
            try:
                self._producer.produce(stream, body, partition=partition, on_delivery=batch.delivered)
            except (BufferError, KafkaException) as error:
                batch.refused(bodies[place:], error)
                break
        return batch

    def _next(self, stream: str, total: int) -> int:
        now = monotonic()
        for _ in range(total):
            partition = next(self._turn) % total
            if self._avoided.get((stream, partition), 0.0) <= now:
                return partition
        return next(self._turn) % total

    async def _count(self, stream: str) -> int:
        try:
            found = await asyncio.to_thread(partial(self._producer.list_topics, stream, timeout=_ATTEMPT))
        except KafkaException as error:
            raise unavailable(error) from error
        topic = found.topics[stream]
        if topic.error is not None:
            raise unavailable(KafkaException(topic.error))
        self._partitions[stream] = len(topic.partitions)
        return len(topic.partitions)

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)


class _Batch:
    """Messages on their way to one partition."""

    def __init__(self, partition: int, size: int) -> None:
        self.partition = partition
        self.failed: list[bytes] = []
        self.error: KafkaError | None = None
        self._left = size
        self._loop = asyncio.get_running_loop()
        self.ended = self._loop.create_future()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(message.value() or b"")
            self.error = error
        self._left -= 1
        if not self._left:
            with suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._end)

    def refused(self, bodies: Sequence[bytes], error: Exception) -> None:
        """The client did not take these."""
        self.failed += bodies
        detail = error.args[0] if error.args else None
        self.error = detail if isinstance(detail, KafkaError) else KafkaError(KafkaError._QUEUE_FULL)
        self._left -= len(bodies)
        if not self._left:
            self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


def _worth_another(error: KafkaError) -> bool:
    return error.code() not in (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.TOPIC_AUTHORIZATION_FAILED)
