"""The database of the simulation: the product's own SQLite store, its writer thread replaced by the virtual loop.

Most calls are answered at once, which costs the least. The others wait in a queue for a moment, so that all other nodes
take a turn in between, and are committed together, as the thread would do it.
"""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TypeVar

from chaos.simulation.loop import Process
from duetime.clock import Clock
from duetime.store.sqlite import SqliteStore
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.database import MOST_TOGETHER, Asked, Database, Work, give

T = TypeVar("T")

EPOCH = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
_COMMIT = 0.001
_AT_ONCE = 0.8


class VirtualClock:
    """The database host's clock: true time, and what faults have made of it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.offset = 0.0

    def now(self) -> datetime:
        return EPOCH + timedelta(microseconds=round((self._loop.time() + self.offset) * 1e6))


class InlineDatabase(Database):
    """Commits on the loop itself, in the database's own process."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        process: Process,
        random: Random,
        *,
        on_rollback: Callable[[], None],
    ) -> None:
        super().__init__(None, clock, on_rollback=on_rollback)
        self._loop = loop
        self._nobody: asyncio.Future[None] = loop.create_future()
        self._process = process
        self._random = random
        self._connection: Connection | None = None
        self._waiting: list[Asked] = []

    async def open(self) -> None:
        self._connection = Connection(None)

    async def close(self) -> None:
        if self._connection is not None:
            self._connection.raw.close()
            self._connection = None

    async def run(self, work: Work[T]) -> T:
        loop = self._loop
        if not self._waiting and self._random.random() < _AT_ONCE:
            assert self._connection is not None
            (answer,) = self.commit(self._connection, [Asked(work, loop, self._nobody)])
            if answer.error is not None:
                raise answer.error
            result: T = answer.result
            return result
        future: asyncio.Future[T] = loop.create_future()
        if not self._waiting:
            loop.call_later(_COMMIT * self._random.random(), self._serve_waiting, context=self._process.context)
        self._waiting.append(Asked(work, loop, future))
        return await future

    def _serve_waiting(self) -> None:
        batch, self._waiting = self._waiting, []
        assert self._connection is not None
        for start in range(0, len(batch), MOST_TOGETHER):
            give(self.commit(self._connection, batch[start : start + MOST_TOGETHER]))


def make_store(loop: asyncio.AbstractEventLoop, process: Process, random: Random) -> tuple[SqliteStore, VirtualClock]:
    clock = VirtualClock(loop)

    def database(_path: object, clock: Clock, *, on_rollback: Callable[[], None], **_how: object) -> Database:
        return InlineDatabase(loop, clock, process, random, on_rollback=on_rollback)

    return SqliteStore(":memory:", clock=clock, database=database), clock
