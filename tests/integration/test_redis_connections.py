"""Connections to Redis that do not lose a cancellation, and know when Redis does not answer."""

import asyncio

import pytest

from duetime.streams import redis_connections
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
