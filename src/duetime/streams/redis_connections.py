"""Connections to Redis, without redis-py's client above them: its pool, callbacks and instrumentation cost a single
command three times what the connection itself does (docs/decisions/0025-broker-clients.md).

redis-py connects, encrypts and authenticates. Then a protocol of our own takes over the transport: hiredis packs the
commands and parses the answers, and a call waits for one future.

Nothing is repeated here: a repeated command could add a message twice, so the caller decides.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import inf
from typing import Any

from hiredis import PushNotification, Reader, pack_command
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

    def __init__(self, url: str, *, largest: float = inf, **options: Any) -> None:
        """`largest`: bytes of all answers to one call. `options`: those of redis-py's connections."""
        self._maker = ConnectionPool.from_url(
            url,
            **options,
            protocol=2,
            # The timeout is ours: redis-py sends with `asyncio.wait_for`, which can lose a cancellation (`end_tasks`).
            socket_timeout=None,
            socket_connect_timeout=_TIMEOUT,
            retry=Retry(NoBackoff(), 0),
        )
        self._largest = largest
        self._idle: list[_Link] = []
        """The last used one at the end."""
        self._closed = False

    async def ask(self, *command: Any, within: float | None = None) -> Any:
        """The answer to a command. Connecting and answering may take `within` seconds together. Raises `ResponseError`
        when Redis refuses the command."""
        [answer] = await self._ask(pack_command(command), 1, within)
        if isinstance(answer, ResponseError):
            raise answer
        return answer

    async def ask_all(self, commands: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answers to these commands, which are sent together; `ResponseError` for those that Redis refuses. Each of
        them has the time of a call of its own."""
        return await self._ask(b"".join(map(pack_command, commands)), len(commands), None)

    async def _ask(self, packed: bytes, count: int, within: float | None) -> list[Any]:
        within = left = _TIMEOUT if within is None else within
        link = self._fresh()
        if link is None:
            link, left = await self._connect(within)
        try:
            answers = await link.ask(packed, count, left)
        except BaseException as error:
            link.abort()
            if isinstance(error, Exception):
                self._drop_idle()  # they were probably lost with it: each of them would fail once more
            if isinstance(error, TimeoutError):
                raise _silent(within) from error
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

    async def _connect(self, within: float) -> "tuple[_Link, float]":
        """A new connection, and the seconds that are left."""
        connection: AbstractConnection = self._maker.make_connection()  # type: ignore[no-untyped-call]
        time = asyncio.get_running_loop().time
        began = time()
        try:
            async with asyncio.timeout(within):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as error:
            if connection._writer is not None:  # TLS would wait for the other side
                connection._writer.transport.abort()
            await connection.disconnect(nowait=True)
            if isinstance(error, TimeoutError):
                raise _silent(within) from error
            if isinstance(error, Exception) and not isinstance(error, (RedisError, OSError)):
                raise ConnectionError(str(error)) from error  # redis-py's, for an answer that it cannot read
            raise
        return _Link(connection, self._largest), within - (time() - began)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for link in idle:
            link.abort()


class _Link:
    """A connection that redis-py has set up. One call at a time; after one that failed or was cancelled, `abort` it.

    Nothing that the event loop has refers to it, so that it is aborted when its owner is collected.
    """

    def __init__(self, connection: AbstractConnection, largest: float) -> None:
        self._answers = _Answers(connection, largest)
        self._transport = self._answers.transport
        self._loop = self._answers.loop

    @property
    def is_fresh(self) -> bool:
        """Whether it can be expected to live."""
        answers = self._answers
        return not answers.is_lost and self._loop.time() - answers.since < _FRESH

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
                self._loop.call_soon_threadsafe(self._transport.abort)  # any thread may collect it


class _Answers(asyncio.Protocol):
    """What arrives on a connection. Data that no call waits for end it: the next call would take them for its own."""

    def __init__(self, connection: AbstractConnection, largest: float) -> None:
        # redis-py's connection forgets its streams, so that it neither reads nor closes them. The writer lives as
        # long as the transport: it warns when it is collected before that is closed.
        self._writer, connection._writer, connection._reader = connection._writer, None, None
        assert self._writer is not None
        self.transport = self._writer.transport
        self.loop = asyncio.get_running_loop()
        self._reader = Reader(protocolError=InvalidResponse, replyError=_refusal, notEnoughData=_NO_ANSWER)
        self._largest = largest
        self._found: list[Any] = []
        self._count = 0
        self._bytes = 0
        """How much has arrived for the current call."""
        self._answered: asyncio.Future[list[Any]] | None = None
        self._within = 0.0
        self.since = self.loop.time()
        """When the last answer arrived, or the commands were sent."""
        self._timer: asyncio.TimerHandle | None = None
        self.is_lost = False
        self.transport.set_protocol(self)

    def expect(self, count: int, within: float) -> asyncio.Future[list[Any]]:
        """Begin a call that gets `count` answers. The first must be complete `within` seconds, and each of the others
        `within` seconds after the one before."""
        if self.is_lost:
            raise _closed()
        self._count, self._bytes = count, 0
        self.since, self._within = self.loop.time(), within
        # One timer for many calls: when it fires, it waits for the rest of the last one.
        if self._timer is None or self._timer.when() > self.since + within:
            self._set_timer()
        self._answered = self.loop.create_future()
        return self._answered

    def end(self) -> None:
        self.is_lost = True
        self._found = []
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def data_received(self, data: bytes) -> None:
        self._bytes += len(data)
        try:
            if self._answered is None:
                raise InvalidResponse("Redis sent what was not asked for")
            if self._bytes > self._largest:
                raise ConnectionError("the answer is too large")
            self._reader.feed(data)
            while (answer := self._reader.gets()) is not _NO_ANSWER:
                if isinstance(answer, ConnectionError):  # Redis is loading its data
                    raise answer
                if isinstance(answer, PushNotification) or len(self._found) == self._count:
                    raise InvalidResponse("Redis sent what was not asked for")
                self._found.append(answer)
                self.since = self.loop.time()
        except RedisError as error:
            self._fail(error)
            self.end()
            self.transport.abort()
            return
        if len(self._found) == self._count:
            answered, found = self._answered, self._found
            self._answered, self._found = None, []
            if not answered.done():
                answered.set_result(found)

    def connection_lost(self, exc: Exception | None) -> None:
        self.end()
        self._fail(_closed() if exc is None else ConnectionError(f"the connection to Redis was lost: {exc}"))

    def _look(self) -> None:
        self._timer = None
        if self._answered is None:
            return
        if self.loop.time() - self.since >= self._within:
            self._fail(TimeoutError())
        else:
            self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(self.since + self._within, self._look)

    def _fail(self, error: Exception) -> None:
        answered, self._answered = self._answered, None
        if answered is not None and not answered.done():
            answered.set_exception(error)


def _refusal(text: str) -> RedisError:
    """The error that an answer says."""
    try:
        found: RedisError = BaseParser.parse_error(text)  # type: ignore[no-untyped-call]
    except ValueError:  # it reads an address from some
        return ResponseError(text)
    return found


def _closed() -> ConnectionError:
    return ConnectionError("Redis closed the connection")


def _silent(within: float) -> TimeoutError:
    return TimeoutError(f"Redis did not answer within {within:.3g} s")
