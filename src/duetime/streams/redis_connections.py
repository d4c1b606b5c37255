"""Connections to Redis, without redis-py's client above them: its pool, callbacks and instrumentation cost a single
command three times what the connection itself does (docs/decisions/0025-broker-clients.md). Commands are packed by
hiredis: redis-py's asyncio connections pack them in Python.

Nothing is repeated here: a repeated command could add a message twice, so the caller decides.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from hiredis import pack_command
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, ResponseError

from duetime.clock import monotonic

_TIMEOUT = 5.0
"""Seconds to connect, or to wait for an answer."""
_FRESH = 30.0
"""Seconds after which an unused connection is not used again: Redis or a firewall may have closed it."""


class RedisConnections:
    """Opened on demand, and used by one task at a time. Raises `RedisError` and `OSError`."""

    def __init__(self, url: str, **options: Any) -> None:
        """`options`: those of redis-py's connections."""
        self._maker = ConnectionPool.from_url(
            url,
            **options,
            protocol=2,
            # The timeout is ours: redis-py sends with `asyncio.wait_for`, which can lose a cancellation (`end_tasks`).
            socket_timeout=None,
            socket_connect_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        self._idle: list[tuple[float, AbstractConnection]] = []
        """With the time of the last use, the last used one at the end."""
        self._closed = False

    async def ask(self, *command: Any) -> Any:
        """The answer to a command. Raises `ResponseError` when Redis refuses it."""
        [answer] = await self.ask_all([command])
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    async def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to these commands, which are sent together; `ResponseError` for those that Redis refuses."""
        connection = await self._ready()
        answers: list[Any] = []
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(_TIMEOUT) as limit:
                try:
                    await connection.send_packed_command(map(pack_command, commands), check_health=False)
                except RuntimeError as error:  # uvloop's, for a connection that was lost a moment ago
                    raise ConnectionError(str(error)) from error
                while True:
                    try:
                        answers.append(await connection.read_response())
                    except ResponseError as error:
                        answers.append(error)
                    if len(answers) == len(commands):
                        break
                    limit.reschedule(now() + _TIMEOUT)
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, Exception):
                # The others were probably lost with it: each of them would fail once more.
                await self._drop_idle()
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"Redis did not answer within {_TIMEOUT:g} s") from error
            raise
        if self._closed:
            await connection.disconnect(nowait=True)
        else:
            self._idle.append((monotonic(), connection))
        return answers

    async def close(self) -> None:
        self._closed = True
        await self._drop_idle()

    async def _ready(self) -> AbstractConnection:
        if self._idle:
            used, connection = self._idle.pop()
            if monotonic() - used < _FRESH:
                return connection
            await connection.disconnect(nowait=True)
            await self._drop_idle()
        made: AbstractConnection = self._maker.make_connection()  # type: ignore[no-untyped-call]
        return made

    async def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for _, connection in idle:
            await connection.disconnect(nowait=True)
