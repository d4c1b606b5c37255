"""The thread that owns the connection, and group commit.

Callers queue plain functions and await the answers on their own event loops. The thread runs all queued functions in
one transaction, each in a savepoint, so that a function that fails is rolled back alone. Functions that are queued
while the transaction runs join it. The thread gives the answers after the commit, so that an answered change is on
disk. Under load, more functions share one sync: a busy worker's claim and its completions do.

A simulation has no threads: it calls `commit` and `give` itself, from a loop with virtual time.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, NamedTuple, TypeVar

from duetime.clock import Clock, monotonic
from duetime.errors import StoreUnavailable
from duetime.store.sqlite.connection import Connection, meaning
from duetime.store.sqlite.ownership import Ownership
from duetime.store.sqlite.values import stamp

T = TypeVar("T")
Work = Callable[[Connection, int], T]
"""An operation: a function of the connection and the time in microseconds."""

MOST_TOGETHER = 64
_OPEN_FOR = 0.05
"""Seconds for which functions can join a transaction."""


class Asked(NamedTuple):
    work: Work[Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    outside: bool = False
    """Whether it runs alone, without a transaction."""


class Answer(NamedTuple):
    asked: Asked
    result: Any
    error: Exception | None


class Database:
    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        *,
        on_rollback: Callable[[], None],
        on_ends: Callable[[], None] = lambda: None,
        serves: Path | None = None,
        lock_timeout: float = 0.0,
    ) -> None:
        self.path = path
        self.clock = clock
        self._on_rollback = on_rollback
        self._on_ends = on_ends
        self._serves = serves
        self._lock_timeout = lock_timeout
        self._guard = Lock()
        self._queue: SimpleQueue[Asked | None] = SimpleQueue()
        self._thread: Thread | None = None

    @property
    def shown(self) -> str:
        return ":memory:" if self.path is None else str(self.path)

    @property
    def used(self) -> int:
        """1 while callers wait for the connection, else 0."""
        return 0 if self._queue.empty() else 1

    async def open(self) -> None:
        loop = asyncio.get_running_loop()
        opened: asyncio.Future[None] = loop.create_future()
        with self._guard:
            if self._thread is not None:
                return
            self._queue = SimpleQueue()
            self._thread = Thread(
                target=self._serve,
                args=(self._queue, Asked(_nothing, loop, opened)),
                name=f"duetime {self.shown}",
                daemon=True,
            )
            self._thread.start()
        try:
            await opened
        except Exception:
            self._thread = None
            raise
        except BaseException:
            await self.close()  # the caller was cancelled: release the file
            raise

    async def close(self) -> None:
        with self._guard:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._queue.put(None)
        if thread is not None:
            await asyncio.to_thread(thread.join)

    async def run(self, work: Work[T]) -> T:
        """Run this on the store's thread, in a transaction; the answer comes after the commit."""
        return await self._ask(work, outside=False)

    async def run_outside(self, work: Callable[[Connection], T]) -> T:
        """Run this on the store's thread, outside of a transaction. All other callers wait meanwhile."""
        return await self._ask(lambda connection, _: work(connection), outside=True)

    async def _ask(self, work: Work[T], *, outside: bool) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        with self._guard:
            if self._thread is None:
                raise StoreUnavailable("the store is not open", remedy="call open() first")
            self._queue.put(Asked(work, loop, future, outside))
        return await future

    def _serve(self, queue: "SimpleQueue[Asked | None]", opening: Asked) -> None:
        ownership = None
        if self.path is not None:
            ownership = Ownership(self.path, serves=self._serves, lock_timeout=self._lock_timeout)
        try:
            if ownership is not None:
                ownership.take()
            connection = Connection(self.path)
        except Exception as error:
            if ownership is not None:
                ownership.release()
            give([Answer(opening, None, meaning(error, self.shown))])
            return
        give([Answer(opening, None, None)])
        inbox = _Inbox(queue)
        try:
            while (batch := inbox.batch()) is not None:
                if batch[0].outside:
                    give(self._outside(connection, batch))
                else:
                    give(self.commit(connection, batch, inbox.joining))
        finally:
            connection.raw.close()
            if ownership is not None:
                ownership.release()

    def _outside(self, connection: Connection, batch: list[Asked]) -> list[Answer]:
        answers = []
        for asked in batch:
            try:
                answers.append(Answer(asked, asked.work(connection, stamp(self.clock.now())), None))
            except Exception as error:
                answers.append(Answer(asked, None, meaning(error, self.shown)))
        return answers

    def commit(
        self, connection: Connection, batch: list[Asked], joining: Callable[[], Asked | None] = lambda: None
    ) -> list[Answer]:
        """Run these in one transaction, and what joins it meanwhile. Their answers are valid once this returns."""
        raw = connection.raw
        open_until = monotonic() + _OPEN_FOR
        batch = list(batch)
        try:
            raw.execute("begin immediate")
            answers = [self._answer(connection, asked, alone=len(batch) == 1) for asked in batch]
            while raw.in_transaction and len(batch) < MOST_TOGETHER and monotonic() < open_until:
                if (asked := joining()) is None:
                    break
                batch.append(asked)
                answers.append(self._answer(connection, asked, alone=False))
            if raw.in_transaction:
                raw.execute("commit")
        except Exception as error:
            # For example a full disk: the whole batch is rolled back.
            if raw.in_transaction:
                raw.execute("rollback")
            self._on_rollback()
            return [Answer(asked, None, meaning(error, self.shown)) for asked in batch]
        if connection.ends_noted:
            connection.ends_noted = False
            self._on_ends()
        return answers

    def _answer(self, connection: Connection, asked: Asked, *, alone: bool) -> Answer:
        raw = connection.raw
        if asked.future.cancelled():
            return Answer(asked, None, None)
        if not alone:
            raw.execute("savepoint one")
        try:
            result = asked.work(connection, stamp(self.clock.now()))
        except Exception as error:
            self._on_rollback()
            if alone:
                if raw.in_transaction:
                    raw.execute("rollback")
            elif raw.in_transaction:
                raw.execute("rollback to one")
                raw.execute("release one")
            else:
                raise  # SQLite has rolled back the transaction, and with it the other functions
            return Answer(asked, None, meaning(error, self.shown))
        if not alone:
            raw.execute("release one")
        return Answer(asked, result, None)


class _Inbox:
    """The queued functions, in order."""

    def __init__(self, queue: "SimpleQueue[Asked | None]") -> None:
        self._queue = queue
        self._first: list[Asked | None] = []
        """What was taken from the queue and did not fit."""

    def batch(self) -> list[Asked] | None:
        """Wait for a function, and take those that can run together with it; None when the store is closing."""
        first = self._first.pop() if self._first else self._queue.get()
        if first is None:
            return None
        batch = [first]
        while len(batch) < MOST_TOGETHER and (following := self._next(outside=first.outside)) is not None:
            batch.append(following)
        return batch

    def joining(self) -> Asked | None:
        """The next function, if there is one that can join a transaction."""
        return self._next(outside=False)

    def _next(self, *, outside: bool) -> Asked | None:
        if self._first or self._queue.empty():
            return None
        asked = self._queue.get()
        if asked is None or asked.outside is not outside:
            self._first.append(asked)
            return None
        return asked


def give(answers: list[Answer]) -> None:
    """Deliver answers, with one wake-up per event loop."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Answer]] = {}
    for answer in answers:
        by_loop.setdefault(answer.asked.loop, []).append(answer)
    for loop, given in by_loop.items():
        # A closed loop has no waiters.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(_deliver, given)


def _deliver(answers: list[Answer]) -> None:
    for asked, result, error in answers:
        if asked.future.done():
            continue
        if error is None:
            asked.future.set_result(result)
        else:
            asked.future.set_exception(error)


def _nothing(_connection: Connection, _now: int) -> None:
    """The work of opening, which is done when the connection is open."""
