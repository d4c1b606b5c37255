"""What is particular to Kafka: partitions, committed offsets, and topics that would lose messages."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import timedelta
from functools import partial
from uuid import uuid4

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from duetime.engine.stream_keeper import StreamKeeper
from duetime.errors import InvalidInput, StreamUnavailable
from duetime.model.carried import StreamSettings
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.store.address import store_in_memory
from duetime.streams import kafka_reader
from duetime.streams.address import broker_at
from duetime.streams.brokers import Brokers
from duetime.streams.kafka_offsets import WINDOW
from duetime.streams.names import streams_of
from duetime.streams.protocol import Broker, Consumer, Delivery, PartConsumer
from duetime.telemetry.meters import Meters
from tests.support.brokers import running
from tests.support.jvm_servers import KafkaServer
from tests.support.kafka_groups import members
from tests.support.waiting import eventually

LEASE = 1.0
LONG = 30.0


@pytest.fixture
def server() -> KafkaServer:
    found = running(KafkaServer)
    assert isinstance(found, KafkaServer)
    return found


@pytest.fixture
def admin(server: KafkaServer) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"127.0.0.1:{server.port}"})


@pytest.fixture
async def broker(server: KafkaServer) -> AsyncIterator[Broker]:
    broker = await broker_at(server.address_with("partitions=2"))
    await broker.open()
    yield broker
    await broker.close()


@pytest.fixture
async def stream(broker: Broker) -> str:
    name = new_stream()
    await broker.check([name])
    return name


def new_stream() -> str:
    return f"test_{random.randrange(2**40)}"


async def receive(consumer: Consumer, stream: str, count: int) -> list[Delivery]:
    found: list[Delivery] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            found += await consumer.fetch([(stream, count - len(found))], 1)
    return found


def bodies(count: int) -> list[bytes]:
    return [b"%05d" % number for number in range(count)]


def create(admin: AdminClient, settings: Mapping[str, str], stream: str) -> None:
    admin.create_topics([NewTopic(stream, 1, 1, config=dict(settings))])[stream].result(LONG)


SAFE = {"retention.ms": "-1", "retention.bytes": "-1"}
UNSAFE = [
    ({**SAFE, "cleanup.policy": "compact"}, "cleanup.policy compact"),
    ({"retention.ms": "1000"}, "retention.ms=1000"),
    ({**SAFE, "retention.bytes": "100000"}, "retention.bytes=100000"),
    ({**SAFE, "max.message.bytes": "100000"}, "messages of 99488 bytes"),
    ({**SAFE, "min.insync.replicas": "2"}, "accepts no message"),
]


@pytest.mark.parametrize(("settings", "said"), UNSAFE, ids=[said for _, said in UNSAFE])
async def test_a_topic_that_would_lose_messages_is_refused(
    admin: AdminClient, broker: Broker, settings: dict[str, str], said: str
) -> None:
    stream = new_stream()
    create(admin, settings, stream)
    with pytest.raises(InvalidInput, match=said) as refused:
        await broker.check([stream])
    assert refused.value.remedy


async def test_a_limited_time_can_be_accepted(admin: AdminClient, server: KafkaServer) -> None:
    stream = new_stream()
    create(admin, {"retention.ms": "60000"}, stream)
    broker = await broker_at(server.address_with("accept_retention=true"))
    await broker.open()
    assert any("retention.ms=60000" in sentence for sentence in await broker.check([stream]))
    await broker.close()


async def test_messages_are_reported_at_half_of_their_retention(
    admin: AdminClient, server: KafkaServer, caplog: pytest.LogCaptureFixture
) -> None:
    store, brokers, meters = store_in_memory(), Brokers(), Meters()
    await store.open()
    await store.migrate()
    address = server.address_with(f"accept_retention=true&prefix=k{uuid4().hex[:12]}")
    queue = await store.streams.set_stream(DEFAULT_TENANT, "mail", StreamSettings(address))
    assert queue is not None
    names = streams_of(queue, shared=True)
    for name in names.values():
        create(admin, {"retention.ms": "2000"}, name.text)  # Kafka looks for what is older only every few minutes
    keeper = StreamKeeper(store, brokers, meters, lease=timedelta(seconds=15))

    async def used() -> float:
        await keeper.tick()
        return meters.gauges["duetime_stream_retention_used"]().get(("high",), 0.0)

    assert await used() == 0.0
    broker = await brokers.at(queue.settings)
    await broker.publish(names[Tier.HIGH].text, [b"late"])

    async def is_old() -> bool:
        return await used() > 0.5

    await eventually(is_old, within=LONG)
    assert [f"messages in {names[Tier.HIGH].text} wait for" in text for text in caplog.messages].count(True) == 1
    await brokers.close()
    await store.close()


async def test_a_topic_has_its_partitions_and_keeps_everything(admin: AdminClient, broker: Broker, stream: str) -> None:
    assert len(admin.list_topics(stream, timeout=LONG).topics[stream].partitions) == 2
    assert "at most 2 workers" in " ".join(await broker.check([stream]))


async def test_what_is_done_is_deleted(admin: AdminClient, broker: Broker, stream: str) -> None:
    await broker.publish(stream, bodies(20))
    consumer = await broker.consumer([stream], "first", LONG)
    await consumer.done(await receive(consumer, stream, 20))
    await consumer.close()
    places = [TopicPartition(stream, number) for number in range(2)]
    lows = admin.list_offsets(dict.fromkeys(places, OffsetSpec.earliest()))
    assert sum(lows[place].result(LONG).offset for place in places) == 20


async def test_one_that_is_not_done_holds_back_the_window_only(server: KafkaServer) -> None:
    broker = await broker_at(server.address_with("partitions=1"))
    await broker.open()
    stream = new_stream()
    await broker.check([stream])
    await broker.publish(stream, bodies(WINDOW + 100))
    consumer = await broker.consumer([stream], "first", LONG)
    [first] = await receive(consumer, stream, 1)
    await consumer.done(await receive(consumer, stream, WINDOW - 1))
    assert await consumer.fetch([(stream, 500)], 1) == []
    await consumer.extend([first])
    waiting = asyncio.create_task(receive(consumer, stream, 100))
    await consumer.done([first])
    await consumer.done(await waiting)
    assert (await broker.depths([stream]))[stream].messages == 0
    await consumer.close()
    await broker.close()


async def test_a_new_worker_gets_its_share_when_what_is_held_has_ended(broker: Broker, stream: str) -> None:
    """Nothing that was held is delivered again because a worker was added."""
    first = await broker.consumer([stream], "first", LEASE)
    for _ in range(2):  # one batch for each partition
        await broker.publish(stream, bodies(5))
    held = await receive(first, stream, 10)
    second = await broker.consumer([stream], "second", LEASE)
    waiting = asyncio.create_task(second.fetch([(stream, 10)], 2 * LEASE))
    while not waiting.done():
        await first.extend(held)
        await asyncio.wait([waiting], timeout=LEASE / 5)
    assert await waiting == []
    await first.done(held)
    counts: dict[str, int] = {"first": 0, "second": 0}

    async def consume(name: str, consumer: Consumer) -> None:
        while not all(counts.values()):
            found = await consumer.fetch([(stream, 10)], 0.2)
            assert not any(each.redelivered for each in found)
            counts[name] += len(found)
            await consumer.done(found)

    async def publish() -> None:
        while not all(counts.values()):
            await broker.publish(stream, bodies(1))
            await asyncio.sleep(0.05)

    async with asyncio.timeout(LONG):
        await asyncio.gather(publish(), consume("first", first), consume("second", second))
    await first.close()
    await second.close()


async def test_what_was_read_ahead_is_new_to_the_worker_after_one_that_left(broker: Broker, stream: str) -> None:
    await broker.publish(stream, bodies(60))
    first = await broker.consumer([stream], "first", LONG)
    held = await receive(first, stream, 20)
    await first.done(held[10:])
    await first.close()
    second = await broker.consumer([stream], "second", LONG)
    found = await receive(second, stream, 50)
    assert sorted(each.body for each in found if each.redelivered) == bodies(10)
    await second.close()


async def test_what_a_consumer_without_room_has_read_ahead_is_new_to_others(broker: Broker, stream: str) -> None:
    """It fetches nothing for a lease, and leaves."""
    await broker.publish(stream, bodies(100))
    first = await broker.consumer([stream], "first", LEASE)
    await first.done(await receive(first, stream, 10))
    second = await broker.consumer([stream], "second", LONG)
    found = await receive(second, stream, 90)
    assert not any(each.redelivered for each in found)
    await second.done(found)
    await asyncio.gather(first.close(), second.close())


async def test_what_a_consumer_leaves_goes_to_others_as_new(admin: AdminClient, broker: Broker, stream: str) -> None:
    await broker.publish(stream, bodies(300))
    first, second = [await broker.consumer([stream], name, LONG) for name in ("first", "second")]
    assert isinstance(first, PartConsumer)
    held = await receive(first, stream, 100)
    receiving = asyncio.create_task(receive(second, stream, 200))
    await eventually(lambda: has_members(admin, stream, {"first", "second"}), within=LONG)
    first.leave(stream)
    await first.done(held)
    assert not any(each.redelivered for each in await receiving)
    await second.done(receiving.result())
    assert {each.body for each in [*held, *receiving.result()]} == set(bodies(300))
    await eventually(lambda: has_members(admin, stream, {"second"}), within=LONG)
    await second.close()
    await broker.publish(stream, [b"again"])
    [again] = await receive(first, stream, 1)
    assert (again.body, again.redelivered) == (b"again", False)
    await first.done([again])
    await first.close()


@pytest.mark.parametrize("pause", [0.0, 0.002, 0.005, 0.01])
async def test_what_is_fetched_while_it_leaves_is_not_new_to_others(
    admin: AdminClient, broker: Broker, stream: str, pause: float
) -> None:
    await broker.publish(stream, bodies(300))
    first, second = [await broker.consumer([stream], name, LONG) for name in ("first", "second")]
    assert isinstance(first, PartConsumer)
    await first.done(await receive(first, stream, 100))
    started: Counter[bytes] = Counter()

    async def take_the_rest() -> None:
        while True:
            found = await second.fetch([(stream, 50)], 0.2)
            started.update(each.body for each in found if not each.redelivered)
            await second.done(found)

    taking = asyncio.create_task(take_the_rest())
    await eventually(lambda: has_members(admin, stream, {"first", "second"}), within=LONG)
    first.leave(stream)
    await asyncio.sleep(pause)
    found = await first.fetch([(stream, 10)], 0)
    started.update(each.body for each in found if not each.redelivered)
    await first.close()
    await asyncio.sleep(0.5)
    taking.cancel()
    assert [body for body, count in started.items() if count > 1] == []
    await second.close()


async def test_messages_that_stay_held_do_not_keep_partitions_from_others(broker: Broker, stream: str) -> None:
    first = await broker.consumer([stream], "first", 2 * LEASE)
    for _ in range(2):  # one for each partition
        await broker.publish(stream, [b"forgotten"])
    await receive(first, stream, 2)

    async def consume() -> None:
        while True:
            await first.done([each for each in await first.fetch([(stream, 10)], 0.2) if each.body != b"forgotten"])

    consuming = asyncio.create_task(consume())
    second = await broker.consumer([stream], "second", 2 * LEASE)
    bodies_found: set[bytes] = set()
    async with asyncio.timeout(LONG):
        while not bodies_found >= {b"forgotten", b"new"}:
            await broker.publish(stream, [b"new"])
            found = await second.fetch([(stream, 10)], 0.2)
            assert all(each.redelivered for each in found if each.body == b"forgotten")
            bodies_found |= {each.body for each in found}
            await second.done(found)
    consuming.cancel()
    await asyncio.gather(first.close(), second.close())


async def test_a_message_that_stays_held_delays_leaving_for_a_moment(server: KafkaServer) -> None:
    broker = await broker_at(server.address_with("partitions=1"))
    await broker.open()
    stream = new_stream()
    await broker.check([stream])
    await broker.publish(stream, bodies(20))
    first, second = [await broker.consumer([stream], name, 5 * LEASE) for name in ("first", "second")]
    assert isinstance(first, PartConsumer)
    held = await receive(first, stream, 1)
    first.leave(stream)
    found = await receive(second, stream, 20)
    assert [each.body for each in found if each.redelivered] == [held[0].body]
    await asyncio.gather(first.close(), second.close())
    await broker.close()


async def test_a_consumer_takes_part_also_when_there_are_too_few_partitions(server: KafkaServer) -> None:
    broker = await broker_at(server.address_with("partitions=1"))
    await broker.open()
    stream = new_stream()
    await broker.check([stream])
    first, second = [await part_consumer(broker, stream, name) for name in ("first", "second")]
    for each in (first, second):
        assert not each.takes_part_in()
        await eventually(partial(takes_part, each, stream), within=LONG)
    await second.close()
    assert not second.takes_part_in()
    first.leave(stream)
    assert not first.takes_part_in()
    await first.close()
    await broker.close()


async def part_consumer(broker: Broker, stream: str, name: str) -> PartConsumer:
    consumer = await broker.consumer([stream], name, LONG)
    assert isinstance(consumer, PartConsumer)
    return consumer


async def takes_part(consumer: PartConsumer, stream: str) -> bool:
    await consumer.fetch([(stream, 1)], 0.05)
    return stream in consumer.takes_part_in()


async def has_members(admin: AdminClient, stream: str, names: set[str]) -> bool:
    return await members(admin, stream) == names


async def test_done_after_the_loss_of_a_partition_changes_nothing(broker: Broker, stream: str) -> None:
    await broker.publish(stream, bodies(5))
    silent = await broker.consumer([stream], "silent", LEASE)
    held = await receive(silent, stream, 5)
    heir = await broker.consumer([stream], "heir", LONG)
    again = await receive(heir, stream, 5)
    assert all(each.redelivered for each in again)
    await silent.done(held)
    await silent.fetch([(stream, 5)], 1)  # it is in the group again
    await silent.done(held)
    await silent.close()
    await heir.close()
    third = await broker.consumer([stream], "third", LONG)
    assert len(await receive(third, stream, 5)) == 5
    await third.close()


async def test_a_worker_goes_on_when_its_committed_offsets_could_not_be_read(
    broker: Broker, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client calls back when it gets partitions, and does not pass on what the callback raises."""
    await broker.publish(stream, bodies(3))
    monkeypatch.setattr(kafka_reader, "TIMEOUT", 0.000001)
    consumer = await broker.consumer([stream], "one", LONG)
    with pytest.raises(StreamUnavailable, match="offsets"):
        await receive(consumer, stream, 1)
    monkeypatch.undo()
    found: list[Delivery] = []
    async with asyncio.timeout(LONG):
        while len(found) < 3:
            with suppress(StreamUnavailable):  # until it has joined again
                found += await consumer.fetch([(stream, 3 - len(found))], 1)
    assert sorted(each.body for each in found) == bodies(3)
    await consumer.close()


async def test_offsets_that_another_program_set_make_messages_doubtful(
    admin: AdminClient, broker: Broker, stream: str
) -> None:
    await broker.publish(stream, bodies(6))
    consumer = await broker.consumer([stream], "first", LONG)
    found = await receive(consumer, stream, 6)
    await consumer.done(found[:2])
    await consumer.close()
    places = [TopicPartition(stream, number, 0) for number in range(2)]

    async def reset() -> bool:
        group = ConsumerGroupTopicPartitions(stream, places)
        done = admin.alter_consumer_group_offsets([group])[stream]
        return await asyncio.to_thread(lambda: done.exception(LONG)) is None

    await eventually(reset, within=LONG)
    again = await broker.consumer([stream], "second", LONG)
    found = await receive(again, stream, 4)  # what was done is deleted
    assert all(each.redelivered for each in found)
    await again.done(found)
    await broker.publish(stream, [b"new"])
    [new] = await receive(again, stream, 1)
    assert not new.redelivered
    await again.close()


async def test_a_topic_that_was_created_anew_is_read_from_its_beginning(
    admin: AdminClient, broker: Broker, stream: str
) -> None:
    consumer = await broker.consumer([stream], uuid4().hex, LONG)
    await broker.publish(stream, bodies(50))
    await consumer.done(await receive(consumer, stream, 50))
    await consumer.close()
    admin.delete_topics([stream])[stream].result(LONG)

    async def create_again() -> bool:
        try:
            await asyncio.to_thread(create, admin, SAFE, stream)
        except Exception:
            return False
        return True

    await eventually(create_again, within=LONG)
    await broker.check([stream])
    other = await broker.consumer([stream], uuid4().hex, LONG)
    await broker.publish(stream, bodies(5))
    assert sorted(each.body for each in await receive(other, stream, 5)) == bodies(5)
    await other.close()
