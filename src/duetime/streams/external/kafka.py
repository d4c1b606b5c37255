"""Kafka topics of other programs.

A Kafka cluster tells its clients which hosts to connect to, and the client library follows. The address guard cannot
check that, so duetime connects only to clusters that the operator has listed.
"""

import asyncio
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka import Message as KafkaMessage
from confluent_kafka.admin import AdminClient

from duetime.clock import monotonic
from duetime.errors import MessageRefused, StreamUnavailable
from duetime.model.source import KafkaSource
from duetime.model.target import AtKafka, KafkaTarget
from duetime.streams.external.protocol import Message, Received
from duetime.streams.kafka_reader import TIMEOUT, unavailable

_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    KafkaError.MSG_SIZE_TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE,
    KafkaError.TOPIC_EXCEPTION,
    KafkaError.INVALID_RECORD,
    KafkaError.POLICY_VIOLATION,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._INVALID_ARG,
}
_LOOK = 30.0
"""Seconds after which the partitions are counted again."""
_REPORTED_ERRORS = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT}


def client_settings(at: AtKafka, servers: list[str], password: str | None) -> dict[str, Any]:
    """The part of a client's configuration that concerns the connection."""
    protocol = ("sasl_" if password is not None else "") + ("ssl" if at.tls else "plaintext")
    found: dict[str, Any] = {
        "bootstrap.servers": ",".join(servers),
        "security.protocol": protocol,
        "client.id": "duetime",
        "log_level": 0,
        "socket.keepalive.enable": True,
        "socket.timeout.ms": int(TIMEOUT * 1000) + 1000,
        "socket.connection.setup.timeout.ms": int(TIMEOUT * 1000),
        "reconnect.backoff.max.ms": 1000,
    }
    if password is not None:
        found |= {"sasl.mechanism": at.mechanism, "sasl.username": at.username, "sasl.password": password}
    return found


class KafkaReceiver:
    """Reads all partitions of a topic by offsets, without joining the group, whose offsets only show how far the topic
    was read. A topic that was deleted and created again is another one, by its id."""

    def __init__(self, at: KafkaSource, servers: list[str], password: str | None, marks: Mapping[str, str]) -> None:
        self._at = at
        self._client = client_settings(at, servers, password)
        self._marks = marks
        self._consumer: Consumer | None = None
        self._topic_id = ""
        self._partitions = 0
        self._looked_at = 0.0
        self.marks: dict[str, str] = {}

    async def fetch(self, most: int, wait: float) -> list[Received]:
        try:
            return await asyncio.to_thread(self._fetch, most, wait)
        except KafkaException as error:
            detail = error.args[0]
            if detail.code() in _REFUSED:
                raise MessageRefused(f"Kafka: {detail.str()}") from error
            raise unavailable(error) from error

    async def hold(self, messages: Sequence[Received]) -> None:
        pass

    async def done(self, messages: Sequence[Received]) -> None:
        newest = {message.ref: int(message.mark) for message in messages}
        places = [TopicPartition(self._at.topic, number, offset) for number, offset in newest.items()]
        if self._consumer is not None:
            with suppress(KafkaException):
                self._consumer.commit(offsets=places, asynchronous=True)

    async def close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await asyncio.to_thread(consumer.close)

    def _fetch(self, most: int, wait: float) -> list[Received]:
        if self._consumer is None:
            self._consumer = self._open()
        elif monotonic() - self._looked_at > _LOOK:
            self._look(self._consumer)
        first = self._consumer.poll(wait)
        found: list[Received] = []
        for message in [] if first is None else [first, *(self._consumer.consume(most - 1, 0) if most > 1 else ())]:
            error = message.error()
            if error is not None:
                raise KafkaException(error)
            found.append(self._received(message))
        return found

    def _open(self) -> Consumer:
        topic = self._at.topic
        admin = AdminClient(dict(self._client))
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=TIMEOUT)[topic].result()
        self._topic_id = str(described.topic_id)
        self._partitions = len(described.partitions)
        self._looked_at = monotonic()
        consumer = Consumer(
            {
                **self._client,
                "group.id": self._at.group,
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "auto.offset.reset": self._at.start,
                "queued.max.messages.kbytes": 16384,
            }
        )
        try:
            consumer.assign([self._place(consumer, part.id) for part in described.partitions])
        except BaseException:
            consumer.close()
            raise
        return consumer

    def _place(self, consumer: Consumer, number: int) -> TopicPartition:
        mark = self._marks.get(f"{self._topic_id}/{number}")
        place = TopicPartition(self._at.topic, number)
        low, end = consumer.get_watermark_offsets(place, timeout=TIMEOUT)
        if mark is None:
            place.offset = low if self._at.start == "earliest" else end
        else:
            # Retention may have removed what comes next. An offset beyond the end names messages that Kafka has lost.
            place.offset = min(max(int(mark), low), end)
        self.marks[f"{self._topic_id}/{number}"] = str(place.offset)
        return place

    def _look(self, consumer: Consumer) -> None:
        """The topic may have more partitions than before, or be another one."""
        self._looked_at = monotonic()
        found = consumer.list_topics(self._at.topic, timeout=TIMEOUT).topics[self._at.topic]
        if found.error is not None:
            raise KafkaException(found.error)
        if len(found.partitions) != self._partitions:
            raise StreamUnavailable("Kafka: the partitions of the topic have changed")

    def _received(self, message: KafkaMessage) -> Received:
        number, offset, key = message.partition(), message.offset(), message.key()
        assert number is not None
        assert offset is not None
        headers: dict[str, str] = {}
        said: Any = message.headers() or ()
        for name, value in said:
            headers[name.lower()] = value if isinstance(value, str) else (value or b"").decode("utf-8", "replace")
        text = key.decode("utf-8", "replace") if isinstance(key, bytes) else key
        part = f"{self._topic_id}/{number}"
        # Offsets that Kafka has lost may be given to other messages: the time tells them apart.
        message_id = f"{part}/{offset}/{message.timestamp()[1]}"
        body = message.value() or b""
        return Received(
            message_id, text, headers, body if isinstance(body, bytes) else body.encode(), part, str(offset + 1), number
        )


class KafkaPublisher:
    """A producer, and the thread in which its acknowledgements arrive."""

    def __init__(self, at: AtKafka, servers: list[str], password: str | None, limit: float) -> None:
        """`limit`: seconds after which a message is given up."""
        self._said: KafkaError | None = None
        self._producer = Producer(
            {
                **client_settings(at, servers, password),
                "error_cb": self._hear,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "partitioner": "murmur2_random",  # as Java's producers choose the partition of a key
                "message.timeout.ms": int(max(0.5, limit - 1.5) * 1000),  # before the attempt ends
                "topic.metadata.propagation.max.ms": 2000,
                "message.max.bytes": 100_000_000,  # the topic decides
            }
        )
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="kafka acknowledgements", daemon=True)
        self._thread.start()

    async def publish(self, target: KafkaTarget, message: Message) -> dict[str, Any]:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[KafkaMessage] = loop.create_future()

        def end(error: KafkaError | None, sent: KafkaMessage) -> None:
            if ended.done():
                return
            if error is None:
                ended.set_result(sent)
            else:
                ended.set_exception(KafkaException(error))

        def delivered(error: KafkaError | None, sent: KafkaMessage) -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(end, error, sent)

        headers: list[tuple[str, str | bytes | None]] = [
            (name, value.encode()) for name, value in message.headers.items()
        ]
        key = None if target.key is None else target.key.encode()
        try:
            self._producer.produce(target.topic, message.body, key, on_delivery=delivered, headers=headers)
            sent = await ended
        except BufferError as error:
            raise StreamUnavailable("Kafka: too many messages wait to be sent") from error
        except KafkaException as error:
            raise self._judged(error) from error
        return {"topic": target.topic, "partition": sent.partition(), "offset": sent.offset()}

    async def close(self) -> None:
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        self._producer.flush(TIMEOUT)
        self._closed.set()
        self._thread.join()

    def _judged(self, error: KafkaException) -> MessageRefused | StreamUnavailable:
        detail = error.args[0]
        if detail.code() in _REFUSED:
            return MessageRefused(f"Kafka: {detail.str()}")
        found = unavailable(error)
        if self._said is not None:
            found = StreamUnavailable(f"{found.message}; {self._said.str()}", remedy=found.remedy)
        return found

    def _hear(self, error: KafkaError) -> None:
        if error.code() in _REPORTED_ERRORS:
            self._said = error

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)
