"""Three Kafka brokers, of which one is killed while messages are published and consumed: none is lost."""

import asyncio
from collections import Counter
from uuid import uuid4

import pytest

from duetime.errors import StreamUnavailable
from duetime.streams.address import broker_at
from duetime.streams.protocol import Broker
from tests.support.jvm_servers import KafkaCluster, KafkaServer
from tests.support.waiting import eventually

BATCH = 20
LONG = 100.0


@pytest.mark.timeout(300)
async def test_the_death_of_one_broker_of_three_loses_nothing() -> None:
    if (reason := KafkaServer.missing()) is not None:
        pytest.skip(reason)
    with KafkaCluster() as cluster:
        broker = await broker_at(f"{cluster.address}?partitions=6")
        await broker.open()
        stream = "killed"
        said = " ".join(await broker.check([stream]))
        assert "stored on 3 brokers and accepted when 2 have it" in said
        accepted: set[bytes] = set()
        received: Counter[bytes] = Counter()
        stopping, all_sent = asyncio.Event(), asyncio.Event()

        async def reaches(count: int) -> None:
            await eventually(lambda: len(received) >= count, within=LONG)

        async with asyncio.timeout(2 * LONG):
            publishing = asyncio.create_task(publish(broker, stream, accepted, stopping))
            tasks = [asyncio.create_task(consume(broker, stream, accepted, received, all_sent)) for _ in range(2)]
            await reaches(100)
            cluster.nodes[1].kill()
            await reaches(len(accepted) + 400)
            await asyncio.to_thread(cluster.nodes[1].start)
            await reaches(len(accepted) + 200)
            stopping.set()
            await publishing
            all_sent.set()
            await asyncio.gather(*tasks)
        assert accepted <= received.keys()
        await broker.close()


async def publish(broker: Broker, stream: str, accepted: set[bytes], stopping: asyncio.Event) -> None:
    number = 0
    while not stopping.is_set():
        bodies = [b"%d" % each for each in range(number, number + BATCH)]
        try:
            await broker.publish(stream, bodies)
        except StreamUnavailable:
            continue  # the same messages again, as a client does
        accepted.update(bodies)
        number += BATCH
        await asyncio.sleep(0.02)


async def consume(
    broker: Broker, stream: str, accepted: set[bytes], received: Counter[bytes], all_sent: asyncio.Event
) -> None:
    consumer = await broker.consumer([stream], uuid4().hex, 3.0)
    while not (all_sent.is_set() and accepted <= received.keys()):
        try:
            found = await consumer.fetch([(stream, 50)], 0.5)
            received.update(each.body for each in found)
            await consumer.done(found)
        except StreamUnavailable:
            await asyncio.sleep(0.1)
    await consumer.close()
