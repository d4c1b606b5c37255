"""The eraser removes everything that deleted tenants own: rows, archived files, messages in streams.

It runs on every node; one at a time works on a tenant. Each part is a small transaction that also records what it has
done, and after each the eraser waits as long as the part took, so that the work of other tenants goes on. Killed at any
moment, the next eraser continues there.

A pass goes through all tables, then the archive. Processes that have not heard that the tenant is closed may still
write, so the last pass is one that finds nothing and began `quiet` after the erasure. A node that was writing archived
files when the last rows were removed may have read them before: the eraser waits until it is done.
"""

import asyncio
import logging
from datetime import timedelta
from uuid import UUID

from duetime.archive.archive import Archive
from duetime.clock import monotonic
from duetime.engine.clock_guard import ClockGuard
from duetime.errors import ArchiveUnavailable, DuetimeError, StoreUnavailable, reason_of
from duetime.ids import new_id
from duetime.model.carried import StreamQueue
from duetime.model.erasure import Erasure, ErasureStep
from duetime.store.protocol.store import Store
from duetime.store.rules.tenant_tables import TENANT_TABLES
from duetime.streams.address import shown_address
from duetime.streams.brokers import Brokers
from duetime.streams.names import streams_of

log = logging.getLogger("duetime.eraser")

_LEASE = timedelta(seconds=60)
_LONGEST = 20.0
"""Seconds of work between two renewals of the lease."""
_SHORTEST_PAUSE = 0.002
_MOST_RUNNING = 1000
_STREAM_WAIT = 0.5
_AT_ONCE = 100


class Eraser:
    def __init__(
        self,
        store: Store,
        archive: Archive | None = None,
        brokers: Brokers | None = None,
        *,
        guard: ClockGuard | None = None,
        interval: timedelta = timedelta(seconds=5),
        batch: int = 500,
        window: int = 5000,
        cancel_timeout: timedelta = timedelta(minutes=1),
        quiet: timedelta = timedelta(seconds=30),
    ) -> None:
        """`cancel_timeout`: how long running runs get to end after they were asked to."""
        self._store = store
        self._erasures = store.erasures
        self._archive = archive
        self._brokers = brokers or Brokers()
        self._guard = guard or ClockGuard(store)
        self._interval = interval.total_seconds()
        self._batch = batch
        self._window = window
        self._cancel_timeout = cancel_timeout
        self._quiet = quiet
        self._me = new_id()
        self._archiving: dict[int, frozenset[UUID]] = {}
        """By tenant: the writers of archived files that were at work when its last rows were removed, and may not have
        finished."""

    async def tick(self) -> float:
        erasure = await self._erasures.take_erasure(self._me, _LEASE, await self._guard.trusted_now())
        if erasure is None:
            return self._interval
        problem: str | None = None
        pause = 0.0
        try:
            pause = await self._go_on(erasure)
        except StoreUnavailable:
            raise
        except DuetimeError as error:
            problem, pause = reason_of(error)[:500], self._interval
            log.warning("the erasure of tenant %d cannot go on: %s", erasure.tenant_id, problem)
        await self._erasures.release_erasure(erasure, self._me, problem, timedelta(seconds=pause))
        return min(pause, self._interval)

    async def _go_on(self, erasure: Erasure) -> float:
        """Work for a while; returns how long to wait."""
        if erasure.step is ErasureStep.WAITING:
            log.info("the erasure of tenant %d begins", erasure.tenant_id)
            erasure = await self._erasures.begin_erasure(erasure)
        if erasure.step is ErasureStep.CANCELLING:
            assert erasure.started_at is not None
            running = await self._erasures.stop_tenant(erasure.tenant_id, _MOST_RUNNING)
            if running and await self._store.now() < erasure.started_at + self._cancel_timeout:
                return 0.5
            erasure = await self._erasures.move_erasure(erasure, ErasureStep.REMOVING)
        if erasure.step is ErasureStep.REMOVING:
            return await self._remove(erasure)
        if not await self._erasures.compact():
            return self._interval
        await self._erasures.move_erasure(erasure, ErasureStep.DONE)
        log.info("tenant %d is erased", erasure.tenant_id)
        return 0.0

    async def _remove(self, erasure: Erasure) -> float:
        until = monotonic() + _LONGEST
        if erasure.progress.table == 0:
            erasure = await self._empty_streams(erasure)
        while erasure.progress.table < len(TENANT_TABLES):
            began = monotonic()
            erasure = await self._erasures.erase_part(erasure, self._batch, self._window)
            if monotonic() > until:
                return 0.0
            await asyncio.sleep(max(_SHORTEST_PAUSE, monotonic() - began))
        erasure = await self._erase_files(erasure)
        if erasure.progress.found:
            self._archiving.pop(erasure.tenant_id, None)
        if erasure.progress.found or await self._is_written(erasure):
            await self._erasures.next_pass(erasure)
            return self._interval
        await self._erasures.end_tenant(erasure)
        self._archiving.pop(erasure.tenant_id, None)
        return 0.0

    async def _is_written(self, erasure: Erasure) -> bool:
        """Whether something of the tenant may still be written, after a pass that found nothing."""
        began, started = erasure.progress.began, erasure.started_at
        assert began is not None
        assert started is not None
        if began < started + self._quiet or await self._erasures.has_rows(erasure.tenant_id):
            return True
        if self._archive is None:
            return False
        writing = await self._erasures.archiving()
        waiting = self._archiving.setdefault(erasure.tenant_id, writing)
        self._archiving[erasure.tenant_id] = waiting & writing
        return bool(waiting)

    async def _erase_files(self, erasure: Erasure) -> Erasure:
        tenant_id = erasure.tenant_id
        if self._archive is not None:
            return await self._erasures.note_removed(erasure, "archive files", await self._archive.erase(tenant_id))
        if await self._store.archives.tenant_days(tenant_id, 2**31 - 1, 1):
            raise ArchiveUnavailable(
                "the tenant has archived files, and this node has no archive", remedy="set archive_url on all nodes"
            )
        return erasure

    async def _empty_streams(self, erasure: Erasure) -> Erasure:
        """Take the tenant's messages out of its streams. No worker does: the tenant is closed."""
        for queue in await self._store.streams.stream_queues(erasure.tenant_id):
            erasure = await self._erasures.note_removed(erasure, "stream messages", await self._emptied(queue))
        return erasure

    async def _emptied(self, queue: StreamQueue) -> int:
        broker = await self._brokers.at(queue.settings)
        if broker.shared:
            log.warning(
                "messages of tenant %d in the streams of %s stay there until the broker deletes them: all tenants share"
                " these streams",
                *(queue.tenant_id, shown_address(queue.settings.address)),
            )
            return 0
        names = [each for name in streams_of(queue, shared=False).values() for each in (name.text, name.refused)]
        depths = await broker.depths(names)
        full = [name for name in names if name in depths and depths[name].messages]
        if not full:
            return 0
        removed = 0
        consumer = await broker.consumer(full, f"eraser-{self._me.hex}", _LEASE.total_seconds())
        try:
            while found := await consumer.fetch([(name, _AT_ONCE) for name in full], _STREAM_WAIT):
                await consumer.done(found)
                removed += len(found)
        finally:
            await consumer.close()
        return removed
