"""The scanner: fires what has come into view. It runs on every node; no occurrence is fired twice.

It looks ahead, so that a herd of jobs at 09:00:00 has become runs when 09:00:00 comes. A job that cannot be processed
is set aside with its reason and stops nobody else; a batch that the database refuses is halved until the row at fault
stands alone.
"""

import asyncio
import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.clock import monotonic
from duetime.errors import StoreRejected, StoreUnavailable
from duetime.ids import show
from duetime.model.firing import DueJob, Fire, SetAside, plan_fire
from duetime.store.protocol import PlanFires, Scan, Store

log = logging.getLogger("duetime.scanner")

_PATIENCE = 0.05
_MOST_SKIPS = 2_000
_PLAN_FOR = 0.2
_AT_ONCE = 3


class Scanner:
    def __init__(self, store: Store, *, interval: timedelta = timedelta(milliseconds=500), batch: int = 1000) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._batch = batch
        self._limit = batch
        self._last: UUID | None = None
        self._behind = False
        """Whether there was more to fire than one batch."""

    async def tick(self) -> float:
        try:
            scan = await self._fire()
            await self._store.unblock(self._batch)
        except StoreRejected as error:
            self._behind = False
            await self._narrow(error)
            return 0.0
        except StoreUnavailable:
            self._limit = max(1, self._limit // 2)  # it may be too much for one transaction
            self._behind = False
            raise
        _tell(scan.set_aside)
        self._behind = scan.seen >= self._batch
        if scan.seen >= self._limit or scan.fired + len(scan.set_aside) < scan.seen:
            self._limit = min(self._batch, self._limit * 2)
            return 0.0
        self._limit = self._batch
        if scan.next_in is None:
            return self._interval
        # A cursor in view that was not seen is in the hands of another node.
        least = 0.0 if scan.seen else _PATIENCE
        return min(self._interval, max(scan.next_in.total_seconds(), least))

    async def _fire(self) -> Scan:
        """Fire a batch; or some at once where many wait, so that one is planned here while the database stores another
        and reads the jobs of the next from disk. They are to each other what two nodes are."""
        if not self._behind or self._limit < self._batch or self._store.embedded:
            return await self._store.fire_due(self._limit, self._plan)
        all_of_them = await asyncio.gather(
            *(self._store.fire_due(self._limit, plan_fires) for _ in range(_AT_ONCE)), return_exceptions=True
        )
        scans = [scan for scan in all_of_them if isinstance(scan, Scan)]
        aside = tuple(item for scan in scans for item in scan.set_aside)
        for found in all_of_them:
            if isinstance(found, BaseException):
                _tell(aside)  # the others have happened
                raise found
        return Scan(sum(scan.fired for scan in scans), aside, sum(scan.seen for scan in scans), scans[-1].next_in)

    async def _narrow(self, error: StoreRejected) -> None:
        """Halve the batch that was refused; a single row that is refused is set aside."""
        if self._limit > 1:
            self._limit //= 2
            return
        scan = await self._store.fire_due(1, _refuse(self._last, str(error)))
        _tell(scan.set_aside)

    def _plan(self, due: Sequence[DueJob], now: datetime) -> list[Fire | SetAside]:
        self._last = due[0].job_id
        return plan_fires(due, now)


def plan_fires(due: Sequence[DueJob], now: datetime) -> list[Fire | SetAside]:
    """Decide as many as one transaction should hold; after a long outage that may not be all of them."""
    decided: list[Fire | SetAside] = []
    skips, until = 0, monotonic() + _PLAN_FOR
    for job in due:
        fire = plan_fire(job, now)
        decided.append(fire)
        skips += len(fire.skips) if isinstance(fire, Fire) else 0
        if skips >= _MOST_SKIPS or monotonic() > until:
            break
    return decided


def _tell(set_aside: Sequence[SetAside]) -> None:
    for item in set_aside:
        log.error("%s is set aside: %s", show("job", item.job_id), item.problem)


def _refuse(culprit: UUID | None, problem: str) -> PlanFires:
    """Set aside the one job that was refused; another one that comes first by now is fired as usual."""

    def plan(due: Sequence[DueJob], now: datetime) -> list[Fire | SetAside]:
        return [SetAside(job.job_id, problem) if job.job_id == culprit else plan_fire(job, now) for job in due]

    return plan
