"""What duetime needs of every broker, on real ones. Leases are short where messages have to come back."""

import asyncio
import os
import random
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from duetime.errors import InvalidInput, StreamUnavailable
from duetime.model.lane import Tier
from duetime.streams.address import broker_at
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Consumer, Delivery
from tests.support.broker_server import BrokerServer
from tests.support.brokers import BROKERS, running
from tests.support.waiting import eventually

LEASE = 2.0
LONG = 30.0
"""Seconds that a message may take on a busy machine."""


@pytest.fixture(params=BROKERS, ids=lambda kind: kind.kind)
def server(request: pytest.FixtureRequest) -> BrokerServer:
    return running(request.param)


@pytest.fixture
async def broker(server: BrokerServer) -> AsyncIterator[Broker]:
    broker = await broker_at(server.address)
    await broker.open()
    yield broker
    await broker.close()


@pytest.fixture
def stream() -> str:
    return new_stream()


def new_stream(queue: str = "mail") -> str:
    return StreamName(random.randrange(2**40), queue, Tier.HIGH, 1, "test").text


@asynccontextmanager
async def consuming(broker: Broker, *streams: str, lease: float = LONG) -> AsyncIterator[Consumer]:
    consumer = await broker.consumer(streams, uuid4().hex, lease)
    try:
        yield consumer
    finally:
        await consumer.close()


async def receive(consumer: Consumer, takes: Sequence[tuple[str, int]], count: int) -> list[Delivery]:
    """Fetch until there are so many messages."""
    found: list[Delivery] = []
    async with asyncio.timeout(LONG):
        while len(found) < count:
            found += await consumer.fetch(takes, 1)
    return found


async def ready(broker: Broker, *streams: str) -> None:
    await broker.check(streams)


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"%05d" % number for number in range(start, start + count)]


async def test_messages_arrive_in_order_and_once(server: BrokerServer, broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(1))
    await broker.publish(stream, bodies(1200, 1))
    await broker.publish(stream, [])
    async with consuming(broker, stream) as consumer:
        found = await receive(consumer, [(stream, 500)], 1201)
        assert all(each.stream == stream and not each.redelivered for each in found)
        received = [each.body for each in found]
        assert (received if server.ordered else sorted(received)) == bodies(1201)
        await consumer.done(found)
        assert await consumer.fetch([(stream, 500)], 0) == []


async def test_any_bytes_arrive_unchanged(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    sent = [b"", bytes(range(256)), b"\r\n$5\r\nhello\r\n", "ünïcode".encode(), b"\xff" * 999]
    await broker.publish(stream, sent)
    async with consuming(broker, stream) as consumer:
        found = await receive(consumer, [(stream, 10)], len(sent))
        assert sorted(each.body for each in found) == sorted(sent)
        await consumer.done(found)


async def test_no_more_than_asked_for_of_each_stream(broker: Broker) -> None:
    streams = [new_stream() for _ in range(4)]
    await ready(broker, *streams)
    for stream in streams[:3]:
        await broker.publish(stream, bodies(20))
    async with consuming(broker, *streams) as consumer:
        takes = [(streams[0], 3), (streams[1], 7), (streams[2], 0), (streams[3], 5)]
        seen: Counter[str] = Counter()
        held = []
        while not held or seen[streams[1]] < 7:
            found = await consumer.fetch(takes, 1)
            counts = Counter(each.stream for each in found)
            assert all(counts[stream] <= count for stream, count in takes)
            seen += counts
            held += found
        assert not seen[streams[2]]
        await consumer.done(held)
        assert await consumer.fetch([], 0) == []


async def test_one_message_at_a_time_holds_one(server: BrokerServer, broker: Broker, stream: str) -> None:
    """What is not asked for stays for others, where they can get it."""
    await ready(broker, stream)
    await broker.publish(stream, bodies(5))
    async with consuming(broker, stream) as greedy, consuming(broker, stream) as other:
        [first] = await receive(greedy, [(stream, 1)], 1)
        rest = await receive(greedy if server.partitioned else other, [(stream, 10)], 4)
        assert first.body not in {each.body for each in rest}
        assert not any(each.redelivered for each in rest)
        await greedy.done([first])
        await other.done(rest)


async def test_a_wait_ends_with_the_first_message(broker: Broker) -> None:
    streams = [new_stream() for _ in range(3)]
    await ready(broker, *streams)
    async with consuming(broker, *streams) as consumer:
        waiting = asyncio.create_task(consumer.fetch([(stream, 5) for stream in streams], 2 * LONG))
        await asyncio.sleep(0.3)
        assert not waiting.done()
        await broker.publish(streams[1], [b"awake"])
        [found] = await asyncio.wait_for(waiting, LONG)
        assert (found.stream, found.body, found.redelivered) == (streams[1], b"awake", False)
        await consumer.done([found])


async def test_a_wait_without_messages_ends_empty(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    async with consuming(broker, stream) as consumer:
        assert await consumer.fetch([(stream, 5)], 0) == []
        assert await consumer.fetch([(stream, 5)], 0.3) == []


async def test_consumers_share_a_stream_without_overlap(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(300))
    received: Counter[bytes] = Counter()

    async def consume() -> None:
        async with consuming(broker, stream) as consumer:
            while received.total() < 300:
                found = await consumer.fetch([(stream, 7)], 0.2)
                received.update(each.body for each in found)
                await consumer.done(found)

    async with asyncio.timeout(LONG):
        await asyncio.gather(*(consume() for _ in range(4)))
    assert received == Counter(bodies(300))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
async def test_messages_of_a_process_that_is_gone_come_back(
    server: BrokerServer, broker: Broker, stream: str, how: signal.Signals
) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(5))
    async with holder(server, stream, count=5) as (process, held), consuming(broker, stream, lease=LEASE) as consumer:
        assert sorted(held) == [f"{body.decode()} first" for body in bodies(5)]
        assert await consumer.fetch([(stream, 10)], 1.5 * LEASE) == []
        os.kill(process.pid, how)
        found = await receive(consumer, [(stream, 10)], 5)
        assert sorted(each.body for each in found) == bodies(5)
        assert all(each.redelivered for each in found)
        await consumer.done(found)
        assert await consumer.fetch([(stream, 10)], 1.5 * LEASE) == []


async def test_messages_that_are_not_extended_come_back(server: BrokerServer, broker: Broker, stream: str) -> None:
    if not server.knows_silence:
        pytest.skip(f"{server.kind}: a consumer holds its messages while its process lives")
    await ready(broker, stream)
    await broker.publish(stream, bodies(4))
    async with consuming(broker, stream, lease=LEASE) as silent, consuming(broker, stream, lease=LEASE) as other:
        held = await receive(silent, [(stream, 4)], 4)
        await silent.done(held[:1])
        found = await receive(other, [(stream, 4)], 3)
        assert sorted(each.body for each in found) == sorted(each.body for each in held[1:])
        assert all(each.redelivered for each in found)
        await silent.done(held[1:3])  # too late, and harmless
        await other.done(found)
        assert await other.fetch([(stream, 4)], 1.5 * LEASE) == []


async def test_a_message_that_its_consumer_has_forgotten_comes_back(broker: Broker, stream: str) -> None:
    """Also when the consumer goes on, and there is no other."""
    await ready(broker, stream)
    await broker.publish(stream, bodies(3))
    async with consuming(broker, stream, lease=LEASE) as consumer:
        held = await receive(consumer, [(stream, 3)], 3)
        await consumer.done(held[:2])
        [again] = await receive(consumer, [(stream, 3)], 1)
        assert (again.body, again.redelivered) == (held[2].body, True)
        await consumer.done([again])
        assert await consumer.fetch([(stream, 3)], 1.5 * LEASE) == []
        await eventually(lambda: is_empty(broker, stream), within=LONG)


async def test_extending_keeps_messages(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(3))
    async with consuming(broker, stream, lease=LEASE) as consumer, consuming(broker, stream, lease=LEASE) as other:
        held = await receive(consumer, [(stream, 3)], 3)
        taken = asyncio.create_task(other.fetch([(stream, 3)], 2 * LEASE))
        while not taken.done():
            await consumer.extend(held)
            await asyncio.wait([taken], timeout=LEASE / 4)
        assert await taken == []
        await consumer.done(held)


async def test_done_in_any_order_and_again(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(20))
    consumer = await broker.consumer([stream], uuid4().hex, LONG)
    held = sorted(await receive(consumer, [(stream, 20)], 20), key=lambda each: each.body)
    await consumer.done(held[15:][::-1])
    await consumer.done(held[3:9])
    await consumer.done(held[5:9])
    await consumer.done([])
    await consumer.close()
    async with consuming(broker, stream) as other:
        found = await receive(other, [(stream, 20)], 9)
        assert sorted(each.body for each in found) == bodies(3) + bodies(6, 9)
        assert all(each.redelivered for each in found)
        await other.done(found)
        await other.done(found)
        assert await other.fetch([(stream, 20)], 1.5 * LEASE) == []
        await eventually(lambda: is_empty(broker, stream), within=LONG)


async def test_done_by_many_tasks_at_once(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(200))
    async with consuming(broker, stream) as consumer:
        held = await receive(consumer, [(stream, 200)], 200)
        parts = random.Random(3)
        await asyncio.gather(*(consumer.done(parts.sample(held, 50)) for _ in range(10)), consumer.done(held[::-1]))
        await eventually(lambda: is_empty(broker, stream), within=LONG)
        await broker.publish(stream, bodies(1))
        [found] = await receive(consumer, [(stream, 5)], 1)
        assert not found.redelivered
        await consumer.done([found])


async def test_a_closed_consumer_gives_its_messages_back(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(5))
    # The lease is so long that only giving back returns them in time.
    consumer = await broker.consumer([stream], uuid4().hex, 10 * LONG)
    await receive(consumer, [(stream, 5)], 5)
    await consumer.close()
    async with consuming(broker, stream, lease=10 * LONG) as other:
        found = await receive(other, [(stream, 5)], 5)
        assert sorted(each.body for each in found) == bodies(5)
        await other.done(found)


async def test_a_cancelled_fetch_loses_nothing(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    received: Counter[bytes] = Counter()
    moments = random.Random(7)
    async with consuming(broker, stream, lease=LEASE) as consumer:
        for number in range(40):
            fetching = asyncio.create_task(consumer.fetch([(stream, 3)], 0.5))
            await asyncio.sleep(moments.uniform(0, 0.003))
            await broker.publish(stream, bodies(2, 2 * number))
            await asyncio.sleep(moments.uniform(0, 0.003))
            fetching.cancel()
            with suppress(asyncio.CancelledError):
                received.update(each.body for each in await finished(consumer, fetching))
        async with asyncio.timeout(LONG):
            while len(received) < 80:
                found = await consumer.fetch([(stream, 100)], 1)
                received.update(each.body for each in found)
                await consumer.done(found)
    assert sorted(received) == bodies(80)


async def finished(consumer: Consumer, fetching: "asyncio.Task[list[Delivery]]") -> list[Delivery]:
    found = await fetching
    await consumer.done(found)
    return found


async def test_done_and_extend_while_a_fetch_waits(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(2))
    async with consuming(broker, stream) as consumer:
        held = await receive(consumer, [(stream, 2)], 2)
        waiting = asyncio.create_task(consumer.fetch([(stream, 2)], LONG))
        await asyncio.sleep(0.1)
        async with asyncio.timeout(LONG / 2):
            await consumer.extend(held)
            await consumer.done(held)
        assert not waiting.done()
        await broker.publish(stream, [b"more"])
        found = await waiting
        assert [each.body for each in found] == [b"more"]
        await consumer.done(found)


async def test_the_depth_counts_what_is_not_done(server: BrokerServer, broker: Broker, stream: str) -> None:
    before = datetime.now(UTC) - timedelta(seconds=1)
    assert stream not in await broker.depths([stream])
    await ready(broker, stream)
    await broker.publish(stream, bodies(10))

    async def depth_is(count: int) -> bool:
        return (await broker.depths([stream]))[stream].messages == count

    await eventually(lambda: depth_is(10), within=LONG)
    async with consuming(broker, stream) as consumer:
        held = await receive(consumer, [(stream, 6)], 6)
        await eventually(lambda: depth_is(10 if server.counts_held else 10 - len(held)), within=LONG)
        oldest = (await broker.depths([stream]))[stream].oldest
        assert oldest is None or before <= oldest <= datetime.now(UTC) + timedelta(seconds=1)
        await consumer.done(held[2:])
        remaining = 10 - len(held[2:] if server.counts_held else held)
        await eventually(lambda: depth_is(remaining), within=LONG)
        await consumer.done(held[:2])
        rest = await receive(consumer, [(stream, 10)], 10 - len(held))
        await consumer.done(rest)
        await eventually(lambda: is_empty(broker, stream), within=LONG)


async def is_empty(broker: Broker, stream: str) -> bool:
    depth = (await broker.depths([stream]))[stream]
    return depth.messages == 0 and depth.oldest is None


async def test_the_largest_message_fits_and_one_byte_more_is_refused(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    largest = random.Random(1).randbytes(broker.largest)
    with pytest.raises(InvalidInput, match=str(broker.largest)):
        await broker.publish(stream, [b"small", largest + b"!"])
    await broker.publish(stream, [largest, b"small"])
    async with consuming(broker, stream) as consumer:
        found = await receive(consumer, [(stream, 2)], 2)
        assert sorted(each.body for each in found) == sorted([largest, b"small"])
        await consumer.done(found)
        assert await consumer.fetch([(stream, 2)], 0.2) == []


async def test_many_streams(server: BrokerServer, broker: Broker) -> None:
    streams = [new_stream() for _ in range(server.many)]
    await ready(broker, *streams)
    await asyncio.gather(*(broker.publish(stream, bodies(3)) for stream in streams))
    assert len(await broker.depths(streams)) == len(streams)
    async with consuming(broker, *streams) as consumer:
        found = await receive(consumer, [(stream, 1 + at % 4) for at, stream in enumerate(streams)], 3 * len(streams))
        assert Counter(each.stream for each in found) == Counter(dict.fromkeys(streams, 3))
        await consumer.done(found)


QUEUES = ["a.b:c/d@e-f_g", "A", "a", "_" + ":" * 199, "q" * 200, "q" * 199 + "r", "__", "_-2e"]


async def test_any_queue_name_makes_a_stream(broker: Broker) -> None:
    streams = [new_stream(queue) for queue in QUEUES]
    await ready(broker, *streams)
    for stream in streams:
        await broker.publish(stream, [stream.encode()])
    async with consuming(broker, *streams) as consumer:
        found = await receive(consumer, [(stream, 5) for stream in streams], len(streams))
        assert all(each.stream.encode() == each.body for each in found)
        await consumer.done(found)


async def test_checking_again_changes_nothing(broker: Broker, stream: str) -> None:
    said = await broker.check([stream])
    assert said
    assert all(sentence.endswith(".") for sentence in said)
    await broker.publish(stream, bodies(1))
    assert await broker.check([stream]) == said
    async with consuming(broker, stream) as consumer:
        await consumer.done(await receive(consumer, [(stream, 1)], 1))


async def test_messages_published_before_any_consumer_are_kept(broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(4))
    async with consuming(broker, stream) as consumer:
        found = await receive(consumer, [(stream, 9)], 4)
        assert not any(each.redelivered for each in found)
        await consumer.done(found)


async def test_a_broker_that_stops_and_starts_again(server: BrokerServer, broker: Broker, stream: str) -> None:
    await ready(broker, stream)
    await broker.publish(stream, bodies(6))
    async with consuming(broker, stream, lease=LEASE) as consumer:
        held = await receive(consumer, [(stream, 2)], 2)
        waiting = asyncio.create_task(consumer.fetch([(stream, 0)], LONG))
        assert await waiting == []
        server.stop()
        try:
            with pytest.raises(StreamUnavailable):
                await broker.publish(stream, [b"unheard"])
            with pytest.raises(StreamUnavailable):
                await consumer.fetch([(stream, 5)], LONG)
            with pytest.raises(StreamUnavailable):
                await broker.depths([stream])
        finally:
            server.start()
        await eventually(lambda: published(broker, stream, b"after"), within=LONG)
        received: dict[bytes, Delivery] = {}
        expected = {*bodies(6), b"after"}
        async with asyncio.timeout(2 * LONG):
            while not expected <= received.keys():
                try:
                    received.update({each.body: each for each in await consumer.fetch([(stream, 10)], 1)})
                except StreamUnavailable:
                    await asyncio.sleep(0.1)
        assert received.keys() - {b"unheard"} == expected
        assert received[held[0].body].redelivered
        await consumer.done(list(received.values()))


async def published(broker: Broker, stream: str, body: bytes) -> bool:
    try:
        await broker.publish(stream, [body])
    except StreamUnavailable:
        return False
    return True


async def test_an_unreachable_broker_says_so_without_its_password(server: BrokerServer) -> None:
    scheme = server.address.partition("://")[0]
    broker = await broker_at(f"{scheme}://me:hidden-word@127.0.0.1:1/")
    with pytest.raises(StreamUnavailable) as refused:
        await broker.open()
    assert "hidden-word" not in str(refused.value)
    await broker.close()


@asynccontextmanager
async def holder(
    server: BrokerServer, stream: str, count: int
) -> AsyncIterator[tuple[asyncio.subprocess.Process, list[str]]]:
    """A process that holds so many messages, and what it said of each."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.stream_holder", server.address, stream),
        *(uuid4().hex, str(LEASE), str(count)),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(LONG):
            held = [(await process.stdout.readline()).decode().strip() for _ in range(count)]
            assert await process.stdout.readline() == b"extended\n"
        yield process, held
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
