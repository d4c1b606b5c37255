"""The scanner: fires what has come into view. It runs on every node; no occurrence is fired twice.

It looks ahead, so that a herd of jobs at 09:00:00 has become runs when 09:00:00 comes. A job that cannot be processed
is set aside with its reason and stops nobody else; a batch that the database refuses is halved until the row at fault
stands alone.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.errors import StoreRejected
from duetime.ids import show
from duetime.model.firing import DueJob, Fire, SetAside, plan_fire
from duetime.store.protocol import PlanFires, Store

log = logging.getLogger("duetime.scanner")


class Scanner:
    def __init__(self, store: Store, *, interval: timedelta = timedelta(milliseconds=500), batch: int = 1000) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._batch = batch
        self._limit = batch

    async def tick(self) -> float:
        try:
            scan = await self._store.fire_due(self._limit, plan_fires)
            await self._store.unblock(self._batch)
        except StoreRejected as error:
            await self._narrow(error)
            return 0.0
        for item in scan.set_aside:
            log.error("%s is set aside: %s", show("job", item.job_id), item.problem)
        if scan.seen == self._limit:
            self._limit = min(self._batch, self._limit * 2)
            return 0.0
        self._limit = self._batch
        if scan.next_in is None:
            return self._interval
        return min(self._interval, max(scan.next_in.total_seconds(), 0.0))

    async def _narrow(self, error: StoreRejected) -> None:
        """Halve the batch that was refused; a single row that is refused is set aside."""
        if self._limit > 1:
            self._limit //= 2
            return
        scan = await self._store.fire_due(1, _refuse(str(error)))
        for item in scan.set_aside:
            log.error("%s is set aside: %s", show("job", item.job_id), item.problem)


def plan_fires(due: Sequence[DueJob], now: datetime) -> list[Fire | SetAside]:
    return [plan_fire(job, now) for job in due]


def _refuse(problem: str) -> PlanFires:
    def plan(due: Sequence[DueJob], _now: datetime) -> list[Fire | SetAside]:
        return [SetAside(job.job_id, problem) for job in due]

    return plan
