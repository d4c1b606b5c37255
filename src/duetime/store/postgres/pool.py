"""A LIFO cache in front of asyncpg's pool: reusing the last connection avoids the pool's per-acquire task and timer.

A healthy connection is kept here for the next caller. A connection goes back to the pool, which resets or closes it, if
it is closed or in a transaction, if another caller waits for the pool, or if it was not used for a while.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

from duetime.clock import monotonic

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool

_UNUSED = 5.0
"""Seconds without use (at most twice that) after which a connection goes back to the pool."""
_RETURN_EVERY = 1_001
"""One of so many uses returns the connection to the pool, which ends old sessions. Odd, so that if two connections
alternate, it is not always the same one."""


def is_gone(connection: Connection) -> bool:
    """Whether a connection in use has ended. The pool takes such a connection back by itself, and its methods raise."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True


def end(connection: Connection) -> None:
    """Close a session now, even during a statement. Also cleans up a session that has ended."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


class LifoPool:
    def __init__(self, pool: Pool, *, timeout: float, unused: float = _UNUSED) -> None:
        self._pool = pool
        self._timeout = timeout
        self._longest = unused
        self._kept: list[Connection] = []
        self._unused = 0
        """How many of the first cached connections were not used since the last look."""
        self._waiting = 0
        self._closing = False
        self._uses = 0
        self._keep_none_until = 0.0
        self._look: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def used(self) -> int:
        """How many connections are in use."""
        waiting = sum(not is_gone(connection) for connection in self._kept)
        return self._pool.get_size() - self._pool.get_idle_size() - waiting

    def at_hand(self) -> Connection | None:
        """A cached connection that is open as far as is known; None when the cache is empty."""
        while self._kept:
            connection = self._kept.pop()
            self._unused = min(self._unused, len(self._kept))
            if not is_gone(connection):
                return connection
            self._give_back_soon(connection)
        return None

    async def take(self) -> Connection:
        """A connection from the pool; waits until one is free."""
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._timeout)  # type: ignore[return-value]
        finally:
            self._waiting -= 1

    def keep(self, connection: Connection) -> bool:
        """Cache a healthy connection for the next caller; false if it must go back to the pool."""
        self._uses += 1
        if self._waiting or self._closing or self._uses % _RETURN_EVERY == 0:
            return False
        if self._keep_none_until and self._is_old():
            return False
        if is_gone(connection) or connection.is_in_transaction():
            return False
        self._kept.append(connection)
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(self._longest, self._give_back_unused)
        return True

    async def give_back(self, connection: Connection) -> None:
        """Return a connection to the pool, which waits for its current statement."""
        if is_gone(connection):
            end(connection)
        try:
            await self._pool.release(connection)  # type: ignore[arg-type] # it hands out proxies
        except Exception:
            if not is_gone(connection):
                raise
            # The session ended during the release. The pool has noticed, and its slot is free again.

    async def expire(self, within: float) -> None:
        """Close all sessions of now: those in use, for up to `within` seconds, when they are released."""
        self._keep_none_until = monotonic() + within
        kept, self._kept = self._kept, []
        await self._pool.expire_connections()
        for connection in kept:
            end(connection)
            await self.give_back(connection)

    def _is_old(self) -> bool:
        """Whether a session that is released may be one that has expired: the pool knows, and closes it."""
        if monotonic() < self._keep_none_until:
            return True
        self._keep_none_until = 0.0
        return False

    async def close(self) -> None:
        """Close all sessions; those in use are closed when they are released."""
        self._closing = True
        if self._look is not None:
            self._look.cancel()
        kept, self._kept = self._kept, []
        try:
            for connection in kept:
                await self.give_back(connection)
            await self._pool.close()
        except BaseException:
            self._pool.terminate()
            raise

    def _give_back_unused(self) -> None:
        unused, self._kept = self._kept[: self._unused], self._kept[self._unused :]
        self._unused = len(self._kept)
        for connection in unused:
            self._give_back_soon(connection)
        again = bool(self._kept)
        self._look = asyncio.get_running_loop().call_later(self._longest, self._give_back_unused) if again else None

    def _give_back_soon(self, connection: Connection) -> None:
        task = asyncio.create_task(self.give_back(connection), name="duetime store: give back")
        self._returning.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: "asyncio.Task[None]") -> None:
        self._returning.discard(task)
        if not task.cancelled():
            task.exception()  # a connection that could not be released is closed: nothing is left to do
