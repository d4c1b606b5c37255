"""What only Redis can do to messages, and what its configuration means for them."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from uuid import uuid4

import msgspec
import pytest
import uvloop

from duetime.errors import InvalidInput, StreamUnavailable
from duetime.model.lane import Tier
from duetime.streams.address import broker_at
from duetime.streams.fetch_plan import FetchPlan
from duetime.streams.names import StreamName
from duetime.streams.protocol import Broker, Delivery
from duetime.streams.redis import RedisBroker
from duetime.streams.redis_checks import warnings_of
from tests.support.brokers import running
from tests.support.redis_server import RedisServer
from tests.support.waiting import eventually

INFO = {
    "redis_version": "7.0.15",
    "redis_mode": "standalone",
    "role": "master",
    "maxmemory": "1",
    "maxmemory_policy": "noeviction",
    "aof_enabled": "1",
    "connected_slaves": "0",
}


@pytest.fixture
def server() -> RedisServer:
    server = running(RedisServer)
    assert isinstance(server, RedisServer)
    return server


@pytest.fixture
async def broker(server: RedisServer) -> AsyncIterator[Broker]:
    broker = await broker_at(server.address)
    await broker.open()
    yield broker
    await broker.close()


@pytest.fixture
def own() -> Iterator[RedisServer]:
    """A server whose settings the test may change."""
    with RedisServer(repl_diskless_sync_delay="0") as server:
        yield server


@pytest.fixture
def stream() -> str:
    return f"test_{uuid4().hex}"


@pytest.mark.parametrize(
    ("change", "replicas", "says"),
    [
        ({"maxmemory_policy": "allkeys-lru"}, None, "noeviction"),
        ({"role": "slave"}, None, "primary"),
        ({"redis_version": "6.0.16"}, None, "6.2"),
        ({"redis_mode": "cluster"}, None, "cluster"),
        ({"connected_slaves": "1"}, 2, "replicas: 2 are required, and Redis has 1"),
    ],
)
def test_a_configuration_that_loses_messages_is_refused(
    change: dict[str, str], replicas: int | None, says: str
) -> None:
    with pytest.raises(InvalidInput, match=says) as refused:
        warnings_of({**INFO, **change}, "always", replicas)
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("change", "fsync", "replicas", "says"),
    [
        ({}, "always", None, "on Redis's disk"),
        ({}, b"everysec", None, "a second"),
        ({}, "no", None, "had not yet written"),
        ({}, None, None, "does not say"),
        ({"aof_enabled": "0"}, "always", None, "last snapshot"),
        ({"connected_slaves": "2"}, "always", None, "failover"),
        ({"connected_slaves": "2"}, "always", 1, "1 of 2 replicas"),
        ({"maxmemory": "0"}, "always", None, "max_depth"),
        ({"maxmemory_policy": "volatile-lru"}, "always", None, "on Redis's disk"),
    ],
)
def test_durability_is_said_in_words(
    change: dict[str, str], fsync: str | bytes | None, replicas: int | None, says: str
) -> None:
    assert says in " ".join(warnings_of({**INFO, **change}, fsync, replicas))


async def test_a_real_configuration_is_read(own: RedisServer, stream: str) -> None:
    broker = await broker_at(own.address)
    with own.client() as client:
        assert "appendfsync everysec" in " ".join(await broker.check([stream]))
        client.config_set("appendfsync", "always")
        client.config_set("maxmemory", "100mb")
        [sentence] = await broker.check([stream])
        assert "appendfsync always" in sentence
        client.config_set("maxmemory-policy", "allkeys-random")
        with pytest.raises(InvalidInput, match="allkeys-random"):
            await broker.check([stream])
    await broker.close()


async def test_a_message_is_accepted_when_the_replicas_have_it(own: RedisServer, stream: str) -> None:
    with RedisServer(replicaof=f"127.0.0.1 {own.port}") as replica, replica.client() as client, own.client() as primary:
        await eventually(lambda: client.info("replication")["master_link_status"] == "up")
        follower = await broker_at(replica.address)
        with pytest.raises(InvalidInput, match="primary"):
            await follower.check([stream])
        await follower.close()
        one, two = await broker_at(own.address, replicas=1), await broker_at(own.address, replicas=2)
        assert "1 of 1 replicas" in " ".join(await one.check([stream]))
        await one.publish(stream, [b"one"])
        assert client.xlen(stream) == 1
        with pytest.raises(StreamUnavailable, match="1 of 2 replicas"):
            await two.publish(stream, [b"two", b"three"])
        assert primary.xlen(stream) == 3
        await one.close()
        await two.close()


async def test_a_full_redis_refuses_messages_and_delivers_those_it_has(own: RedisServer, stream: str) -> None:
    broker = await broker_at(own.address)
    await broker.check([stream])
    await broker.publish(stream, [b"kept"])
    with own.client() as client:
        client.config_set("maxmemory", "1")
    for bodies in [b"one"], [b"one", b"two"]:
        with pytest.raises(StreamUnavailable, match="maxmemory"):
            await broker.publish(stream, bodies)
    consumer = await broker.consumer([stream], "first", 5)
    found = await consumer.fetch([(stream, 5)], 5)
    assert [each.body for each in found] == [b"kept"]
    await consumer.done(found)
    await consumer.close()
    assert (await broker.depths([stream]))[stream].messages == 0
    await broker.close()


async def test_a_redis_that_lost_its_data_serves_on(server: RedisServer, broker: Broker, stream: str) -> None:
    consumer = await broker.consumer([stream], "first", 5)
    waiting = asyncio.create_task(consumer.fetch([(stream, 5)], 30))
    with server.client() as client:
        await eventually(lambda: client.info("clients")["blocked_clients"])
        client.delete(stream)
        await broker.publish(stream, [b"new"])
        [found] = await waiting
        assert found.body == b"new"
        client.delete(stream)
        await consumer.extend([found])
        await consumer.done([found])
    await consumer.close()


async def test_a_stream_that_the_consumer_was_not_told_of(broker: Broker, stream: str) -> None:
    consumer = await broker.consumer([], "first", 5)
    await broker.publish(stream, [b"old"])
    found = await consumer.fetch([(stream, 5)], 5)
    assert [each.body for each in found] == [b"old"]
    await consumer.done(found)
    await consumer.close()


async def test_only_consumers_without_messages_are_deleted(server: RedisServer, broker: Broker, stream: str) -> None:
    await broker.check([stream])
    await broker.publish(stream, [b"held"])
    with server.client() as client:

        def names() -> set[bytes]:
            return {consumer["name"] for consumer in client.xinfo_consumers(stream, "duetime")}

        holding = await broker.consumer([stream], "holding", 30)
        [held] = await holding.fetch([(stream, 1)], 5)
        client.xgroup_createconsumer(stream, "duetime", "silent")
        await asyncio.sleep(0.05)  # both are silent for longer than twenty leases now
        await broker.consumer([stream], "new", 0.001)
        assert names() == {b"holding"}
        await holding.close()
        assert names() == {b"holding"}
        taking = await broker.consumer([stream], "taking", 30)
        assert await taking.fetch([(stream, 1)], 5) == [msgspec.structs.replace(held, redelivered=True)]
        await taking.done([held])
        await taking.close()
        await holding.close()
        assert names() == set()


async def test_messages_that_others_wrote_are_delivered_for_refusal(
    server: RedisServer, broker: Broker, stream: str
) -> None:
    with server.client() as client:
        client.xadd(stream, {"x": b"1", "y": b"2"})
    consumer = await broker.consumer([stream], "first", 5)
    found = await consumer.fetch([(stream, 5)], 5)
    assert [each.body for each in found] == [b"1"]
    await consumer.done(found)
    await consumer.close()


@pytest.mark.parametrize(
    ("address", "says"),
    [
        ("redis://", "malformed"),
        ("redis://host:port", "malformed"),
        ("redis://host/name", "malformed"),
        ("redis://host?socket_timeout=1", "socket_timeout"),
    ],
)
async def test_an_address_that_redis_cannot_have(address: str, says: str) -> None:
    with pytest.raises(InvalidInput, match=says):
        await broker_at(address)


async def test_one_fetch_fills_unequal_takes(broker: Broker, stream: str) -> None:
    other = f"{stream}-other"
    for each in stream, other:
        await broker.publish(each, [b"%d" % number for number in range(200)])
    consumer = await broker.consumer([stream, other], "first", 5)
    await consumer.fetch([(stream, 1), (other, 1)], 5)  # creates the groups
    found = await consumer.fetch([(stream, 2), (other, 150)], 5)
    assert Counter(each.stream for each in found) == {stream: 2, other: 150}
    await consumer.close()


async def test_a_cancelled_fetch_costs_no_redelivery(broker: Broker, stream: str) -> None:
    await broker.check([stream])
    consumer = await broker.consumer([stream], "first", 300)
    for number in range(20):
        fetching = asyncio.create_task(consumer.fetch([(stream, 5)], 5))
        await asyncio.sleep(0.001)
        await broker.publish(stream, [b"%d" % number])
        fetching.cancel()
        await asyncio.gather(fetching, return_exceptions=True)
        if fetching.cancelled():
            [found] = await consumer.fetch([(stream, 5)], 5)
        else:
            [found] = fetching.result()
        assert (found.body, found.redelivered) == (b"%d" % number, False)
        await consumer.done([found])
    await consumer.close()


async def test_connections_that_were_idle_for_long_are_not_used(
    server: RedisServer, broker: Broker, stream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await asyncio.gather(*(broker.publish(stream, [b"one"]) for _ in range(5)))
    with server.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    monkeypatch.setattr("duetime.streams.redis_connections._FRESH", 0.0)
    for _ in range(5):
        await broker.publish(stream, [b"two"])
    assert (await broker.depths([stream]))[stream].messages == 10


async def test_one_error_clears_out_the_connections_of_an_outage(
    server: RedisServer, broker: Broker, stream: str
) -> None:
    await asyncio.gather(*(broker.publish(stream, [b"one"]) for _ in range(5)))
    with server.client() as client:
        client.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    with pytest.raises(StreamUnavailable):
        await broker.publish(stream, [b"two"])
    await broker.publish(stream, [b"three"])
    assert (await broker.depths([stream]))[stream].messages == 6


@pytest.mark.parametrize("is_noticed", [False, True])
@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_connection_that_is_lost_before_a_command(
    server: RedisServer, stream: str, loop: Callable[[], asyncio.AbstractEventLoop], *, is_noticed: bool
) -> None:
    """uvloop raises an error of its own for it, which no caller expects."""

    async def publish() -> None:
        broker = await broker_at(server.address)
        await broker.open()
        assert isinstance(broker, RedisBroker)
        (link,) = broker._redis._idle
        link._transport.abort()
        if is_noticed:
            await asyncio.sleep(0.05)
        else:
            with pytest.raises(StreamUnavailable):
                await broker.publish(stream, [b"lost"])
        await broker.publish(stream, [b"kept"])
        await broker.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(publish())


async def test_no_fetch_waits_for_depths_that_take_long(own: RedisServer) -> None:
    names = {name.text: name for tier in Tier for name in [StreamName(None, "mail", tier, 1, uuid4().hex[:8])]}
    busy, *others = names
    broker = await broker_at(own.address)
    await broker.open()
    plan = FetchPlan(broker, names)
    assert dict((await plan.takes([busy], 100, {}, 0.5))[0]) == {busy: 10}, "its runs may be for others"
    await broker.publish(busy, [b"waits"] * 500)
    plan.learn([(busy, 10)], [Delivery(busy, b"", False, None)] * 10)
    for stream in names:
        plan.learn_whose(stream, ours=True)
    with own.client() as client:
        client.client_pause(1500)
    slow = asyncio.create_task(broker.depths(list(names)))
    takes, _ = await plan.takes(list(names), 100, {}, 0.5)
    assert not slow.done()
    assert dict(takes) == {busy: 80, **dict.fromkeys(others, 10)}, "the stream that had messages gets most of the room"
    await slow

    async def is_dealt() -> bool:
        return await plan.takes(list(names), 100, {}, 0.5) == ([(busy, 100)], 0.0)

    await eventually(is_dealt)
    await plan.close()
    await broker.close()
