"""Connections to Redis, without redis-py's client above them: its pool, callbacks and instrumentation cost a single
command three times what the connection itself does (docs/decisions/0025-broker-clients.md).

redis-py connects, encrypts and authenticates. Then a protocol of our own takes over the transport: hiredis packs the
commands and parses the answers, and a call waits for one future.

Nothing is repeated here: a repeated command could add a message twice, so the caller decides.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from hiredis import Reader, pack_command
from redis._parsers.base import BaseParser
from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError, InvalidResponse, RedisError, ResponseError

_TIMEOUT = 5.0
"""Seconds to connect, or to wait for an answer."""
_FRESH = 30.0
"""Seconds after which an unused connection is not used again: Redis or a firewall may have closed it."""
_NO_ANSWER = object()
"""What the parser returns until an answer is complete."""


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
        self._idle: list[_Link] = []
        """The last used one at the end."""
        self._closed = False

    async def ask(self, *command: Any, within: float | None = None) -> Any:
        """The answer to a command. Raises `ResponseError` when Redis refuses it."""
        [answer] = await self._ask(pack_command(command), 1, within)
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    async def ask_all(self, commands: Sequence[tuple[Any, ...]], within: float | None = None) -> list[Any]:
        """The answers to these commands, which are sent together; `ResponseError` for those that Redis refuses. Each of
        them must come `within` so many seconds after the last."""
        return await self._ask(b"".join(map(pack_command, commands)), len(commands), within)

    async def _ask(self, packed: bytes, count: int, within: float | None) -> list[Any]:
        within = _TIMEOUT if within is None else within
        link = self._fresh() or await self._connect(within)
        try:
            answers = await link.ask(packed, count, within)
        except BaseException as error:
            link.abort()
            if isinstance(error, Exception):
                self._drop_idle()  # they were probably lost with it: each of them would fail once more
            raise
        if self._closed:
            link.abort()
        else:
            self._idle.append(link)
        return answers

    async def close(self) -> None:
        self._closed = True
        self._drop_idle()

    def _fresh(self) -> "_Link | None":
        if not self._idle:
            return None
        link = self._idle.pop()
        if link.is_fresh:
            return link
        link.abort()
        self._drop_idle()
        return None

    async def _connect(self, within: float) -> "_Link":
        connection: AbstractConnection = self._maker.make_connection()  # type: ignore[no-untyped-call]
        try:
            async with asyncio.timeout(within):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            await connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                raise _silent(within) from error
            raise
        return _Link(connection)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for link in idle:
            link.abort()


class _Link:
    """A connection that redis-py has set up. One call at a time; after one that failed or was cancelled, `abort` it.

    Nothing that the event loop has refers to it, so that it is aborted when its owner is collected.
    """

    def __init__(self, connection: AbstractConnection) -> None:
        # redis-py's connection forgets its streams, so that it neither reads nor closes them.
        self._writer, connection._writer, connection._reader = connection._writer, None, None
        assert self._writer is not None
        self._transport = self._writer.transport
        self._answers = _Answers()
        self._transport.set_protocol(self._answers)

    @property
    def is_fresh(self) -> bool:
        """Whether it can be expected to live."""
        answers = self._answers
        return not answers.is_lost and answers.loop.time() - answers.since < _FRESH

    def ask(self, packed: bytes, count: int, within: float) -> asyncio.Future[list[Any]]:
        answered = self._answers.expect(count, within)
        try:
            self._transport.write(packed)
        except RuntimeError as error:  # uvloop's, for a connection that was lost a moment ago
            raise ConnectionError(str(error)) from error
        return answered

    def abort(self) -> None:
        self._answers.end()
        self._transport.abort()

    def __del__(self) -> None:
        if not self._transport.is_closing():
            with suppress(RuntimeError):  # the event loop is closed
                self.abort()


class _Answers(asyncio.Protocol):
    """What arrives on a connection."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self._reader = Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, notEnoughData=_NO_ANSWER
        )
        self._found: list[Any] = []
        self._count = 0
        self._answered: asyncio.Future[list[Any]] | None = None
        self._within = 0.0
        self.since = 0.0
        """When the last part of an answer arrived, or the commands were sent."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_lost = False

    def expect(self, count: int, within: float) -> asyncio.Future[list[Any]]:
        """So many answers, each within so many seconds after the last."""
        if self.is_lost:
            raise _closed()
        self._found, self._count = [], count
        self.since, self._within = self.loop.time(), within
        # One timer for many calls: when it fires, it waits for the rest of the last one.
        if self._timer is None or self._timer.when() > self.since + within:
            self._set_timer()
        self._answered = self.loop.create_future()
        return self._answered

    def end(self) -> None:
        self.is_lost = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        self._reader.feed(data)
        self.since = self.loop.time()
        try:
            while (answer := self._reader.gets()) is not _NO_ANSWER:
                if isinstance(answer, ConnectionError):  # Redis is loading its data
                    raise answer
                self._found.append(answer)
        except RedisError as error:
            self._fail(error)
        if len(self._found) >= self._count and self._answered is not None and not self._answered.done():
            self._answered.set_result(self._found)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()
        self._fail(_closed() if exc is None else ConnectionError(f"the connection to Redis was lost: {exc}"))

    def _look(self) -> None:
        self._timer = None
        if self._answered is None or self._answered.done():
            return
        if self.loop.time() - self.since >= self._within:
            self._fail(_silent(self._within))
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self.since + self._within, self._look)

    def _fail(self, error: Exception) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(error)


def _closed() -> ConnectionError:
    return ConnectionError("Redis closed the connection")


def _silent(within: float) -> TimeoutError:
    return TimeoutError(f"Redis did not answer within {within:.3g} s")
