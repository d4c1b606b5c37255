"""Connections to Redis that do not lose a cancellation, and know when Redis does not answer."""

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import pytest
from redis.asyncio.connection import Connection
from redis.exceptions import ConnectionError, InvalidResponse, RedisError, ResponseError

from duetime.errors import StreamUnavailable
from duetime.streams import redis as redis_streams
from duetime.streams import redis_connections
from duetime.streams.redis import RedisBroker
from duetime.streams.redis_connections import RedisConnections
from tests.support.redis_server import RedisServer


async def test_no_cancellation_is_lost(redis: RedisServer) -> None:
    connections = RedisConnections(f"redis://127.0.0.1:{redis.port}")
    await connections.ask("PING")
    cancelled = set()
    for turns in range(40):
        asking = asyncio.create_task(connections.ask("XREAD", "BLOCK", 3000, "STREAMS", "nothing", "$"))
        for _ in range(turns):
            await asyncio.sleep(0)
        asking.cancel()
        ended, _ = await asyncio.wait([asking], timeout=1.0)
        cancelled.add(bool(ended) and asking.cancelled())
    assert cancelled == {True}
    assert await connections.ask("PING") == b"PONG"
    await connections.close()


async def test_an_answer_that_does_not_come(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    connections = RedisConnections(f"redis://127.0.0.1:{redis.port}")
    await connections.ask("PING")
    monkeypatch.setattr(redis_connections, "_TIMEOUT", 0.1)
    with pytest.raises(TimeoutError, match="did not answer within"):
        await connections.ask("XREAD", "BLOCK", 3000, "STREAMS", "nothing", "$")
    assert await connections.ask("PING") == b"PONG"
    await connections.close()


@asynccontextmanager
async def connected_to(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]], *, largest: float = 10_000
) -> AsyncIterator[RedisConnections]:
    """Connections to something that is no Redis. It says OK to the login, and then `talk` has the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            asked, answered = b"", 0
            while b"PING" not in asked and (arrived := await reader.read(10_000)):
                asked += arrived
                writer.write(b"+OK\r\n" * (asked.count(b"SETINFO") - answered))
                answered = asked.count(b"SETINFO")
            if b"PING" in asked:
                await talk(reader, writer)
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        connections = RedisConnections(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", largest=largest)
        yield connections
        await connections.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b":1\r\n:2\r\n", InvalidResponse),  # one that was not asked for
        (b">1\r\n:1\r\n", InvalidResponse),  # a push
        (b"?\r\n", InvalidResponse),
        (b"-LOADING Redis is loading\r\n", ConnectionError),
        (b"-MOVED x\r\n", ResponseError),  # redis-py looks for an address in it
        (b"$20000\r\n" + b"x" * 20_000 + b"\r\n", ConnectionError),
        (b"", ConnectionError),
    ],
)
async def test_an_answer_that_is_none(answer: bytes, error: type[RedisError]) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        while answer and await reader.read(1000):
            writer.write(answer)

    async with connected_to(talk) as connections:
        for _ in range(2):
            with pytest.raises(error):
                await connections.ask("PING")


async def test_what_arrives_while_no_call_waits_is_no_answer() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"+first\r\n")
        await asyncio.sleep(0.05)
        while True:
            writer.write(b"+late\r\n" * 10_000)
            await writer.drain()

    async with connected_to(talk) as connections:
        assert await connections.ask("PING") == b"first"
        await asyncio.sleep(0.15)
        assert await connections.ask("PING") == b"first", "on a new connection"


async def test_a_call_ends_in_time_however_little_arrives() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"$1000000\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with connected_to(talk, largest=inf) as connections:
        with pytest.raises(TimeoutError, match=r"did not answer within 0\.3 s"):
            await connections.ask("PING", within=0.3)


async def test_connecting_takes_of_the_time_of_a_call(redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[float] = []
    of_link, connect = redis_connections._Link.ask, Connection.connect

    def ask(link: Any, packed: bytes, count: int, within: float) -> Any:
        left.append(within)
        return of_link(link, packed, count, within)

    async def late(connection: Any) -> None:
        await asyncio.sleep(0.2)
        await connect(connection)

    monkeypatch.setattr(redis_connections._Link, "ask", ask)
    monkeypatch.setattr(Connection, "connect", late)
    connections = RedisConnections(f"redis://127.0.0.1:{redis.port}")
    await connections.ask("PING", within=4.0)
    await connections.ask("PING", within=4.0)
    assert left[0] < 3.9 and left[1] == 4.0
    await connections.close()


async def test_publishes_that_wait_for_others_count_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many streams wait for a silent server together, not one after the other."""
    sent: list[float] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with connected_to(talk) as connections:
        of_link = redis_connections._Link.ask

        def ask(link: Any, packed: bytes, count: int, within: float) -> Any:
            sent.append(asyncio.get_running_loop().time())
            return of_link(link, packed, count, within)

        monkeypatch.setattr(redis_connections._Link, "ask", ask)
        broker = RedisBroker("redis://127.0.0.1:1")
        broker._redis = connections
        bodies = [b"x" * 100, b"PING"]
        publishes = (broker.publish(f"s{number}", bodies[: number % 2 + 1], 0.5) for number in range(150))
        outcomes = await asyncio.gather(*publishes, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {StreamUnavailable}
    assert len(sent) >= redis_streams._PUBLISHING
    assert max(sent) - min(sent) < 1, "150 that wait one after the other would be sent until 2 s"


async def test_connections_that_are_collected_are_closed(redis: RedisServer) -> None:
    for _ in range(3):
        connections = RedisConnections(f"redis://127.0.0.1:{redis.port}")
        await connections.ask("PING")
        connections.itself = connections  # type: ignore[attr-defined]  # in a cycle
        del connections
        gc.collect()
    await asyncio.sleep(0.05)
    client = redis.client()
    assert len(client.client_list()) == 1
    client.close()
