"""Connections that are lent out again at once.

A pool that takes a connection back and gives it to the next spends more of a process's time on it than many a
statement takes: tasks and timers of the event loop, for what is nearly always a move from one list to another. So what
comes back unhurt is kept here for whoever asks next. What is hurt, closed, in a transaction or waited for by somebody
goes back to the pool, which mends it; and so does what nobody asked for in a while, which the pool may close.
"""

import asyncio
import contextlib
from typing import TYPE_CHECKING, TypeAlias

import asyncpg

if TYPE_CHECKING:
    Connection: TypeAlias = asyncpg.Connection[asyncpg.Record]
    Pool: TypeAlias = asyncpg.Pool[asyncpg.Record]
else:
    Connection = asyncpg.Connection
    Pool = asyncpg.Pool

_UNUSED = 5.0
"""Seconds after which what nobody asked for goes back to the pool, and at most twice that."""
_LOANS = 1_001
"""How often connections are kept before one goes back to the pool, which ends sessions that have served for long. Odd,
so that of two that take turns it is not always the same."""


def is_gone(connection: Connection) -> bool:
    """Whether a connection that is lent has ended meanwhile. The pool takes such a one back by itself, and what is left
    of it answers to nothing any more."""
    try:
        return connection.is_closed()
    except asyncpg.InterfaceError:
        return True


def end(connection: Connection) -> None:
    """End a session at once, whatever is under way; one that has ended is cleared away."""
    with contextlib.suppress(asyncpg.InterfaceError):
        connection.terminate()


class LifoPool:
    def __init__(self, pool: Pool, *, patience: float, unused: float = _UNUSED) -> None:
        self._pool = pool
        self._patience = patience
        self._longest = unused
        self._kept: list[Connection] = []
        self._unused = 0
        """How many at the bottom of what is kept nobody has asked for since the last look."""
        self._waiting = 0
        self._closing = False
        self._loans = 0
        self._look: asyncio.TimerHandle | None = None
        self._returning: set[asyncio.Task[None]] = set()

    @property
    def used(self) -> int:
        """How many connections somebody works on."""
        waiting = sum(not is_gone(connection) for connection in self._kept)
        return self._pool.get_size() - self._pool.get_idle_size() - waiting

    def at_hand(self) -> Connection | None:
        """A connection that can be had at once; open, as far as is known."""
        while self._kept:
            connection = self._kept.pop()
            self._unused = min(self._unused, len(self._kept))
            if not is_gone(connection):
                return connection
            self._give_back_soon(connection)
        return None

    async def take(self) -> Connection:
        """A connection of the pool, when there is one."""
        self._waiting += 1
        try:
            return await self._pool.acquire(timeout=self._patience)  # type: ignore[return-value]
        finally:
            self._waiting -= 1

    def keep(self, connection: Connection) -> bool:
        """Keep what came back unhurt for the next; false if it has to go back to the pool."""
        self._loans += 1
        if self._waiting or self._closing or self._loans % _LOANS == 0:
            return False
        if is_gone(connection) or connection.is_in_transaction():
            return False
        self._kept.append(connection)
        if self._look is None:
            self._look = asyncio.get_running_loop().call_later(self._longest, self._give_back_unused)
        return True

    async def give_back(self, connection: Connection) -> None:
        """Back to the pool, which waits for what is under way on it."""
        if is_gone(connection):
            end(connection)
        try:
            await self._pool.release(connection)  # type: ignore[arg-type] # it lends what acts as one
        except Exception:
            if not is_gone(connection):
                raise
            # The session ended on the way back. The pool has noticed by itself, and has its place again.

    async def close(self) -> None:
        """End all sessions; those on which somebody works, when they are given back."""
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
            task.exception()  # one that could not be given back is closed, which is all that could be done about it
