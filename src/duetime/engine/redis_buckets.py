"""Token buckets in Redis, for servers that share submission limits there instead of in the database.

Each request takes its tokens with one script, by the clock of Redis. No server holds tokens in advance, so the limit is
exact: in any t seconds, all servers together give at most rate * t + size tokens. The rules of a bucket are those of
`model/token_bucket.py`. Redis that is away refuses submissions of limited tenants, as the database does.

A bucket is a hash that expires when it is full: Redis may lose it, and the tenant has its burst again.
"""

import asyncio
from typing import Any, Protocol

from duetime.engine.token_leases import Bucket, Taken
from duetime.errors import InvalidInput, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.process.loop import retrieve_error

_TIMEOUT = 2.0
_CONNECTIONS = 8
_TAKE = """
local rate, size, need, back = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local time = redis.call('TIME')
local now = time[1] + time[2] / 1000000
local found = redis.call('HMGET', KEYS[1], 'level', 'at')
local level = size
if found[1] then
    level = math.min(size, tonumber(found[1]) + math.max(0, now - tonumber(found[2])) * rate)
end
level = math.min(size, level + back)
local given = 0
if level + 0.000001 >= math.min(need, size) then
    given = need
end
level = level - given
redis.call('HSET', KEYS[1], 'level', string.format('%.6f', level), 'at', string.format('%.6f', now))
redis.call('PEXPIRE', KEYS[1], math.ceil((size - level) / rate * 1000) + 1000)
return {given, string.format('%.6f', level)}
"""


class Tokens(Protocol):
    """Where submissions get their tokens from: `TokenLeases`, or Redis."""

    held: float
    """Seconds for which a server may hold tokens that it has taken."""

    async def take(self, bucket: Bucket, need: int) -> Taken:
        """Take so many tokens, or none. Raises `StoreUnavailable`."""

    def put_back(self, bucket: Bucket, count: int) -> None:
        """Return unused tokens to the bucket. A negative number takes tokens, also those that it does not have."""

    async def give_back(self) -> None:
        """Give back expired tokens. Call it about once a second."""

    async def close(self) -> None: ...


class RedisBuckets:
    held = 0.0

    def __init__(self, url: str) -> None:
        self._redis = _client(url)
        self._take: Any = self._redis.register_script(_TAKE)
        self._tasks: set[asyncio.Task[Taken]] = set()

    async def take(self, bucket: Bucket, need: int) -> Taken:
        return await self._ask(bucket, need, 0)

    def put_back(self, bucket: Bucket, count: int) -> None:
        task = asyncio.create_task(self._ask(bucket, 0, count))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(retrieve_error)

    async def give_back(self) -> None:
        """Nothing is held."""

    async def close(self) -> None:
        if self._tasks:
            await asyncio.wait(self._tasks)
        await self._redis.aclose(close_connection_pool=True)

    async def _ask(self, bucket: Bucket, need: int, back: int) -> Taken:
        from redis.exceptions import RedisError

        holder = "all" if bucket.key_id is None else show("key", bucket.key_id)
        name = f"duetime_limit_{bucket.tenant_id}_{holder}"
        try:
            given, level_text = await self._take(keys=[name], args=[bucket.rate, bucket.size, need, back])
        except (RedisError, OSError, RuntimeError) as error:  # the last is uvloop's, for a lost connection
            raise StoreUnavailable(f"the Redis of submission limits cannot be reached: {reason_of(error)}") from error
        level = float(level_text)
        wait = 0.0 if given == need else (min(need, bucket.size) - level) / bucket.rate
        return Taken(max(0, int(level)), wait)


def _client(url: str) -> Any:
    try:
        from redis.asyncio import BlockingConnectionPool, Redis
        from redis.asyncio.retry import Retry
        from redis.backoff import NoBackoff
    except ModuleNotFoundError:
        raise InvalidInput(
            "needs redis, which is not installed", field="limits_url", remedy="pip install 'duetime[redis]'"
        ) from None
    pool = BlockingConnectionPool.from_url(
        url,
        max_connections=_CONNECTIONS,
        timeout=_TIMEOUT,
        socket_timeout=_TIMEOUT,
        socket_connect_timeout=_TIMEOUT,
        retry=Retry(NoBackoff(), 0),  # a repeated script could take tokens twice
        protocol=2,
    )
    return Redis(connection_pool=pool)
