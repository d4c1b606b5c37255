"""Kafka topics of other programs.

A Kafka cluster tells its clients which hosts to connect to, and the client library follows. The address guard cannot
check that, so duetime connects only to clusters that the operator has listed.
"""

import asyncio
import threading
from contextlib import suppress
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka import Message as KafkaMessage

from duetime.errors import MessageRefused, StreamUnavailable
from duetime.model.target import AtKafka, KafkaTarget
from duetime.streams.external.protocol import Message
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
_WORTH_TELLING = {KafkaError._AUTHENTICATION, KafkaError._SSL, KafkaError._RESOLVE, KafkaError._TRANSPORT}


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
        if error.code() in _WORTH_TELLING:
            self._said = error

    def _serve(self) -> None:
        while not self._closed.is_set():
            self._producer.poll(0.1)
