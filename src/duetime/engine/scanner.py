"""The scanner fires jobs that come into view. It runs on every node; no occurrence is fired twice.

It looks ahead, so that all jobs due at 09:00:00 have become runs by 09:00:00. A job that no node can process is set
aside with its reason. A job that only this node cannot process is skipped and left to the others. Neither stops any
other job. A batch that the database refuses is halved until the faulty row is alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.clock import monotonic
from duetime.engine.unplannable_jobs import UnplannableJobs
from duetime.errors import StoreRejected, StoreUnavailable, reason_of
from duetime.ids import show
from duetime.model.firing import Decided, DueJob, Fire, PassedBy, SetAside, plan_fire
from duetime.store.protocol.store import PlanFires, Scan, Store

log = logging.getLogger("duetime.scanner")

_LOCKED_RETRY = 0.05
_MOST_MISSED = 2_000
"""How many missed occurrences one transaction writes, as runs or as skips."""
_PLAN_FOR = 0.2
_SLICE = 0.05
"""Seconds that a batch on an embedded file should take while others wait for its single writer."""
_LEAST = 50
_AT_ONCE = 3
_MOST_BATCHES = 12


class Scanner:
    def __init__(self, store: Store, *, interval: timedelta = timedelta(milliseconds=500), batch: int = 1000) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._most = batch
        self._batch = batch
        self._limit = batch
        self._pause = 0.0
        """How long to leave the file to other writers before the next batch."""
        self._last: UUID | None = None
        self._passed = UnplannableJobs()

    async def tick(self) -> float:
        try:
            scan = await self._fire()
            _log_set_aside(scan.set_aside)
            self._passed.add(scan.passed_by)
            await self._store.firing.unblock(self._batch)
        except StoreRejected as error:
            await self._narrow(error)
            return 0.0
        except StoreUnavailable:
            self._limit = max(1, self._limit // 2)  # the batch may be too large for one transaction
            raise
        done = scan.fired + len(scan.set_aside) + len(scan.passed_by) + scan.held_back
        if scan.seen >= self._limit or done < scan.seen:
            self._limit = min(self._batch, self._limit * 2)
            return self._pause
        self._limit = self._batch
        if scan.next_in is None:
            return self._interval
        # A cursor in view that the scan did not return is locked by another node.
        least = 0.0 if scan.seen else _LOCKED_RETRY
        return min(self._interval, max(scan.next_in.total_seconds(), least))

    async def _fire(self) -> Scan:
        """Fire a batch. If it is full, fire more batches behind it, so that one is planned here while the database
        stores another and finds the next. Concurrent batches are as independent as two nodes: `SKIP LOCKED` keeps them
        apart."""
        if self._store.embedded:
            return await self._fire_slice()
        if self._limit < self._batch:
            return await self._store.firing.fire_due(self._limit, self._plan, self._passed.waiting())
        batches = _Batches(self._store, self._limit, self._passed)
        async with asyncio.TaskGroup() as group:
            for _ in range(_MOST_BATCHES):
                found = asyncio.get_running_loop().create_future()
                group.create_task(batches.fire(found))
                # The batches select their jobs one after the other: two that select at the same time skip each other's
                # rows.
                if await found < self._limit or batches.is_over:
                    break
        if batches.failed:
            _log_set_aside(batches.set_aside)  # the other batches are committed
            raise batches.failed
        return Scan(
            batches.fired,
            tuple(batches.set_aside),
            batches.seen,
            batches.next_in,
            tuple(batches.passed_by),
            batches.held_back,
        )

    async def _fire_slice(self) -> Scan:
        """Fire a batch. While other writers wait, the batch shrinks to fit a time slice, and firing takes at most half
        of the time: most cursors come into view early, but the other writers' work is due now."""
        began = monotonic()
        scan = await self._store.firing.fire_due(self._limit, self._plan, self._passed.waiting())
        took = monotonic() - began
        self._pause = min(took, _SLICE) if scan.kept_waiting else 0.0
        if took > _SLICE and scan.kept_waiting:
            self._batch = max(min(_LEAST, self._most), self._batch // 2)
        elif took < _SLICE / 4 or not scan.kept_waiting:
            self._batch = min(self._most, self._batch * 2)
        return scan

    async def _narrow(self, error: StoreRejected) -> None:
        """Halve a refused batch; set aside a single refused row."""
        if self._limit > 1:
            self._limit //= 2
            return
        log.warning("the database refused a job's runs: %s", reason_of(error))
        refuse = _refuse(self._last, error.message)
        scan = await self._store.firing.fire_due(1, refuse, self._passed.waiting())
        _log_set_aside(scan.set_aside)
        self._passed.add(scan.passed_by)

    def _plan(self, due: Sequence[DueJob], now: datetime) -> list[Decided]:
        self._last = due[0].job_id
        return plan_fires(due, now)


class _Batches:
    """A series of batches, some of them concurrent, and their combined result."""

    def __init__(self, store: Store, limit: int, passed: UnplannableJobs) -> None:
        self.fired = 0
        self.seen = 0
        self.held_back = 0
        self.set_aside: list[SetAside] = []
        self.passed_by: list[PassedBy] = []
        self.next_in: timedelta | None = None
        self.failed: Exception | None = None
        self.is_over = False
        """Whether a batch failed or made no progress: the next one would do no better."""
        self._store = store
        self._limit = limit
        self._passed = passed
        self._room = asyncio.Semaphore(_AT_ONCE)

    async def fire(self, found: asyncio.Future[int]) -> None:
        """Fire a batch when there is room for it; resolves `found` with the number of selected jobs as early as
        possible."""

        def plan(due: Sequence[DueJob], now: datetime) -> list[Decided]:
            _resolve_once(found, len(due))
            return plan_fires(due, now)

        async with self._room:
            try:
                scan = await self._store.firing.fire_due(self._limit, plan, self._passed.waiting())
            except Exception as error:  # raised when all batches are done
                self.failed = self.failed or error
                self.is_over = True
            else:
                self.is_over = self.is_over or not (scan.fired or scan.set_aside or scan.passed_by or scan.held_back)
                self.fired += scan.fired
                self.seen += scan.seen
                self.held_back += scan.held_back
                self.set_aside += scan.set_aside
                self.passed_by += scan.passed_by
                self._passed.add(scan.passed_by)
                self.next_in = scan.next_in
            finally:
                _resolve_once(found, 0)


def _resolve_once(found: asyncio.Future[int], count: int) -> None:
    if not found.done():
        found.set_result(count)


def plan_fires(due: Sequence[DueJob], now: datetime) -> list[Decided]:
    """Plan as many jobs as one transaction can hold. After a long outage that may not be all of them."""
    decided: list[Decided] = []
    missed, until = 0, monotonic() + _PLAN_FOR
    for job in due:
        fire = plan_fire(job, now)
        decided.append(fire)
        missed += len(fire.skips) + max(0, len(fire.runs) - 1) if isinstance(fire, Fire) else 0
        if missed >= _MOST_MISSED or monotonic() > until:
            break
    return decided


def _log_set_aside(set_aside: Sequence[SetAside]) -> None:
    for item in set_aside:
        log.error("%s is set aside: %s", show("job", item.job_id), item.problem)


def _refuse(culprit: UUID | None, problem: str) -> PlanFires:
    """Set aside the refused job. If another job comes first by now, it fires as usual."""

    def plan(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return [SetAside(job.job_id, problem) if job.job_id == culprit else plan_fire(job, now) for job in due]

    return plan
