"""What a Kafka topic must be for a stream: created if it is missing, refused if it would lose messages."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from datetime import timedelta
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, OffsetSpec, ResourceType  # type: ignore[attr-defined]

from duetime.clock import monotonic
from duetime.errors import InvalidInput, StreamUnavailable
from duetime.streams.kafka_address import KafkaAddress
from duetime.streams.kafka_offsets import LONGEST_TEXT
from duetime.streams.kafka_reader import TIMEOUT, unavailable
from duetime.streams.kafka_watch import StreamWatch

T = TypeVar("T")
Watch = Callable[[str], StreamWatch]
_METADATA_TIMEOUT = 20.0
"""Seconds: the first group makes Kafka create a topic of its own."""
_COPIES = 3
_SEGMENT = 64 << 20
"""Bytes of a log file. Kafka frees whole files, so a small one returns space early."""
_OVERHEAD = 512
"""Bytes that Kafka adds to a message, and some."""
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: "on the topic: Create, Read, Write, Delete, Describe and DescribeConfigs",
    KafkaError.GROUP_AUTHORIZATION_FAILED: "on the group: Read and Describe",
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: "on the cluster: Describe and IdempotentWrite",
}
_TOO_EARLY = {
    KafkaError._TIMED_OUT,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.NOT_COORDINATOR,
}


async def check_topics(admin: AdminClient, watch: Watch, address: KafkaAddress, streams: Sequence[str]) -> list[str]:
    """Raises `InvalidInput` and `StreamUnavailable`."""
    cluster = await _persist(lambda: answer(admin.describe_cluster(request_timeout=TIMEOUT)))
    brokers = [node.id for node in cluster.nodes]
    await _check_brokers(admin, brokers)
    found = await partitions_of(admin, streams)
    missing = [stream for stream in streams if stream not in found]
    if missing:
        for stream in missing:
            await _create(admin, watch, address, stream, len(brokers))
        found |= {stream: await _ready_partitions(admin, stream) for stream in missing}
    said: list[str] = []
    for stream in streams:
        topic = await _settings(admin, ConfigResource(ResourceType.TOPIC, stream))
        copies = min(len(partition.replicas) for partition in found[stream])
        said += _judge(stream, topic, copies, len(brokers), len(found[stream]), address)
        if not address.accept_retention:
            # A deletion that deletes nothing, to learn whether it is allowed.
            await _delete_nothing(admin, TopicPartition(stream, 0, 0))
    return list(dict.fromkeys(said))


async def partitions_of(admin: AdminClient, streams: Sequence[str]) -> dict[str, list[Any]]:
    """The partitions of each of these topics that exists."""
    found = {}
    for stream, future in admin.describe_topics(TopicCollection(list(streams)), request_timeout=TIMEOUT).items():
        try:
            found[stream] = (await answer(future)).partitions
        except _Unknown:
            continue
    return found


class _Unknown(StreamUnavailable):
    """The topic does not exist."""


async def answer(future: "Future[T]") -> T:
    """Raises `InvalidInput` if Kafka's access rules refuse it, and `StreamUnavailable`."""
    try:
        return await asyncio.wrap_future(future)
    except KafkaException as error:
        code = error.args[0].code()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise _Unknown("Kafka: the topic does not exist") from error
        if code in _REFUSED:
            raise InvalidInput(
                "Kafka's access rules refuse what a stream needs", field="stream", remedy=f"grant {_REFUSED[code]}"
            ) from error
        raise unavailable(error) from error


async def ends_of(admin: AdminClient, places: Sequence[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
    """The first offset of each partition, and the one after its last."""
    ends = (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    low, end = (admin.list_offsets(dict.fromkeys(places, at), request_timeout=TIMEOUT) for at in ends)
    return {place: ((await answer(low[place])).offset, (await answer(end[place])).offset) for place in places}


async def _persist(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask until there is an answer: a cluster needs some time before all of it knows a new topic."""
    deadline = monotonic() + _METADATA_TIMEOUT
    while True:
        try:
            return await ask()
        except StreamUnavailable as error:
            cause = error.__cause__
            early = isinstance(cause, KafkaException) and cause.args[0].code() in _TOO_EARLY
            if not early or monotonic() > deadline:
                raise
        await asyncio.sleep(0.05)


async def _ready_partitions(admin: AdminClient, stream: str) -> list[Any]:
    topics = TopicCollection([stream])
    described = await _persist(lambda: answer(admin.describe_topics(topics, request_timeout=TIMEOUT)[stream]))
    partitions: list[Any] = described.partitions
    await _persist(lambda: ends_of(admin, [TopicPartition(stream, partition.id) for partition in partitions]))
    return partitions


async def kept_by(admin: AdminClient, stream: str) -> timedelta | None:
    """After how long Kafka deletes messages of a topic; None: never."""
    topic = ConfigResource(ResourceType.TOPIC, stream)
    entries = await answer(admin.describe_configs([topic], request_timeout=TIMEOUT)[topic])
    milliseconds = int(entries["retention.ms"].value)
    return None if milliseconds < 0 else timedelta(milliseconds=milliseconds)


async def _settings(admin: AdminClient, resource: Any) -> dict[str, str]:
    entries = await _persist(lambda: answer(admin.describe_configs([resource], request_timeout=TIMEOUT)[resource]))
    return {name: entry.value for name, entry in entries.items()}


async def _delete_nothing(admin: AdminClient, place: TopicPartition) -> None:
    await _persist(lambda: answer(admin.delete_records([place], request_timeout=TIMEOUT)[place]))


async def _check_brokers(admin: AdminClient, brokers: Iterable[int]) -> None:
    for broker in brokers:
        try:
            settings = await _settings(admin, ConfigResource(ResourceType.BROKER, str(broker)))
        except (InvalidInput, StreamUnavailable):
            continue  # they may be secret, and a broker may be away
        if int(settings["offset.metadata.max.bytes"]) < LONGEST_TEXT:
            raise _refused("offset.metadata.max.bytes of a broker is too small", f"set it to {LONGEST_TEXT} or more")


async def _create(admin: AdminClient, watch: Watch, address: KafkaAddress, stream: str, brokers: int) -> None:
    copies = min(_COPIES, brokers)
    config = {
        "cleanup.policy": "delete",
        "retention.ms": "-1",
        "retention.bytes": "-1",
        "min.insync.replicas": str(max(1, copies - 1)),
        "unclean.leader.election.enable": "false",
        "message.timestamp.type": "LogAppendTime",
        "segment.bytes": str(_SEGMENT),
        "max.message.bytes": str(address.largest + _OVERHEAD),
    }
    topic = NewTopic(stream, address.partitions, copies, config=config)
    made = admin.create_topics([topic], operation_timeout=TIMEOUT, request_timeout=TIMEOUT)[stream]
    try:
        await asyncio.wrap_future(made)
    except KafkaException as error:
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            await answer(made)
        return
    await _persist(lambda: watch(stream).declare_unread(address.partitions))


def _judge(
    name: str, topic: Mapping[str, str], copies: int, brokers: int, partitions: int, address: KafkaAddress
) -> list[str]:
    if topic["cleanup.policy"] != "delete":
        raise _refused(
            f"topic {name} has cleanup.policy {topic['cleanup.policy']}, which loses messages", "set it to delete"
        )
    if (accepted := int(topic["max.message.bytes"]) - _OVERHEAD) < address.largest:
        raise _refused(
            f"topic {name} accepts messages of {accepted} bytes, less than the {address.largest} that are expected",
            f"set max.message.bytes to {address.largest + _OVERHEAD}, or add largest={accepted} to the address",
        )
    said = [
        f"A partition is read by one worker at a time, so at most {partitions} workers share a tier of this queue.",
    ]
    limits = [f"{limit}={topic[limit]}" for limit in ("retention.ms", "retention.bytes") if topic[limit] != "-1"]
    if limits and not address.accept_retention:
        raise _refused(
            f"topic {name} has {' and '.join(limits)}: Kafka would delete messages that no worker has taken",
            "set both to -1, since duetime deletes what is done, or add accept_retention=true to the address",
        )
    if limits:
        said.append(f"Kafka deletes messages that no worker has taken in time ({', '.join(limits)}).")
    in_sync = int(topic["min.insync.replicas"])
    if in_sync > copies:
        raise _refused(
            f"topic {name} has {copies} replicas and min.insync.replicas={in_sync}, so Kafka accepts no message",
            "lower min.insync.replicas, or add replicas",
        )
    risks = []
    if brokers >= _COPIES and (copies < _COPIES or in_sync < 2):
        risks.append(f"{copies} replicas and min.insync.replicas={in_sync}")
    if copies > 1 and topic["unclean.leader.election.enable"] == "true":
        risks.append("unclean.leader.election.enable=true")
    if risks and not address.accept_replication:
        raise _refused(
            f"topic {name} has {' and '.join(risks)}: a broker that fails would lose messages",
            "use 3 replicas, min.insync.replicas=2 and no unclean election, or add accept_replication=true",
        )
    if in_sync > 1 and not risks:
        said.append(
            f"A message is stored on {copies} brokers and accepted when {in_sync} have it: one broker may fail."
        )
    else:
        said.append("A message is accepted when one broker has it: if that broker fails for good, it is lost.")
    return said


def _refused(message: str, remedy: str) -> InvalidInput:
    return InvalidInput(message, field="stream", remedy=remedy)
