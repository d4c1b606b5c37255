"""The archiver writes ended days of history to the archive, and lets the pruner remove them once they are safe there.

It runs on every node. While the storage is unavailable nothing is removed: a log line, a metric and `duetime archive
list` say so. Ages are measured by the guard's time, as in the pruner.
"""

import asyncio
import logging
from datetime import timedelta

from duetime.archive.archive import Archive
from duetime.archive.names import date_of
from duetime.engine.clock_guard import ClockGuard
from duetime.errors import DuetimeError, StoreUnavailable, reason_of
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Meters

log = logging.getLogger("duetime.archive")

_SOON = 1.0


class ArchiverLoop(Loop):
    """A loop whose round may take minutes: a process that stops does not wait for it."""

    def __init__(self, archiver: "Archiver") -> None:
        super().__init__("archiver", archiver.tick, jitter=0.2)
        self._archiver = archiver

    def stop(self) -> None:
        super().stop()
        self._archiver.stop()


class Archiver:
    def __init__(
        self,
        store: Store,
        archive: Archive,
        *,
        retention: timedelta,
        interval: timedelta = timedelta(minutes=5),
        guard: ClockGuard | None = None,
        meters: Meters | None = None,
    ) -> None:
        self._store = store
        self._archive = archive
        self._retention = retention
        self._interval = interval.total_seconds()
        self._guard = guard or ClockGuard(store)
        self._meters = meters
        self._announced = False
        self._round: asyncio.Task[float] | None = None

    def stop(self) -> None:
        """Interrupt the current round: a later one continues it, here or on another node."""
        if self._round is not None:
            self._round.cancel()

    async def tick(self) -> float:
        self._round = asyncio.create_task(self._work())
        try:
            await asyncio.wait([self._round])
        except asyncio.CancelledError:
            self._round.cancel()
            raise
        return 0.0 if self._round.cancelled() else self._round.result()

    async def _work(self) -> float:
        if not self._announced:
            await self._store.archives.use_archive(used=True)
            self._announced = True
        now = await self._guard.trusted_now()
        clock = await self._store.now()
        waiting = await self._archive.days_to_write(now)
        written = 0
        for day in waiting:
            try:
                written += await self._archive.write_day(day, clock)
            except Exception as error:
                # Whatever went wrong with a day, the process has other work.
                known = isinstance(error, DuetimeError)
                problem = f"{date_of(day)} is not archived, and stays in the database: {reason_of(error)}"
                self._failed(problem, None if known else error)
                if isinstance(error, StoreUnavailable):
                    break
        try:
            for problem in await self._archive.release(now, self._retention):
                self._failed(problem)
            while await self._archive.expire(now):
                pass
        except DuetimeError as error:
            self._failed(f"the archive cannot be checked: {reason_of(error)}")
        if self._meters is not None:
            self._meters.archive_waiting = len(waiting) - written
        return _SOON if written else self._interval

    def _failed(self, problem: str, error: Exception | None = None) -> None:
        log.error("%s", problem, exc_info=error)
        if self._meters is not None:
            self._meters.archive_failures += 1
