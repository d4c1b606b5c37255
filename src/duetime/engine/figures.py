"""The figures that alert rules watch, each read with bounded effort, and once for all the rules of a round."""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import timedelta
from uuid import UUID

from duetime.engine.watcher import unserved_lanes
from duetime.model.alert import Alert, Figure
from duetime.model.listing import RunFilter, RunItem
from duetime.model.notification import QUEUE
from duetime.model.tenant import Queue
from duetime.model.worker import Worker
from duetime.store.protocol import Store

WINDOW = timedelta(minutes=5)
_SAMPLE = 1000
_CAP = 1_000_000
_FEW = 20
"""Fewer runs than this say nothing about how long they usually take."""


class Readings:
    """The figures of one round: what several rules need is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._queues: dict[int, list[Queue]] = {}
        self._workers: dict[int, list[Worker]] = {}
        self._runs: dict[tuple[int, str | None], list[RunItem]] = {}
        self._held: dict[UUID, int] | None = None

    async def of(self, alert: Alert) -> float | None:
        """The value now; None when there is nothing to judge by."""
        tenant_id, queue = alert.tenant_id, alert.rule.queue
        match alert.rule.figure:
            case Figure.DEAD_LETTERS:
                cap = min(_CAP, int(alert.rule.threshold) + 10_000)
                return float(await self._store.count_dead_letters(tenant_id, queue, cap))
            case Figure.BACKLOG:
                return float(await self._backlog(tenant_id, queue))
            case Figure.WORKERS:
                return float(len(await self._alive(tenant_id, queue)))
            case Figure.FREE_SLOTS:
                return float(await self._free_slots(tenant_id, queue))
            case Figure.LAG_P95:
                return await self._lag(tenant_id, queue)
            case Figure.DURATION:
                return await self._duration(tenant_id, queue)
            case Figure.UNSERVED:
                return float(await self._unserved(tenant_id, queue))

    async def _backlog(self, tenant_id: int, queue: str | None) -> int:
        if tenant_id not in self._queues:
            self._queues[tenant_id] = await self._store.queues(tenant_id)
        depths = [each.depth for each in self._queues[tenant_id] if queue in (None, each.name) and each.name != QUEUE]
        return sum(depth.high + depth.medium + depth.low for depth in depths)

    async def _alive(self, tenant_id: int, queue: str | None) -> list[Worker]:
        if tenant_id not in self._workers:
            now = await self._store.now()
            found = await self._store.workers(tenant_id)
            self._workers[tenant_id] = [worker for worker in found if worker.lease_until > now]
        return [each for each in self._workers[tenant_id] if queue is None or not each.queues or queue in each.queues]

    async def _free_slots(self, tenant_id: int, queue: str | None) -> int:
        if self._held is None:
            self._held = await self._store.held_slots()
        workers = await self._alive(tenant_id, queue)
        return sum(max(0, worker.slots - self._held.get(worker.id, 0)) for worker in workers)

    async def _lag(self, tenant_id: int, queue: str | None) -> float | None:
        """Of the runs that were due in the last minutes; one that waits has waited until now at least."""
        now = await self._store.now()
        lags = [
            ((run.started_at or now) - run.due_at).total_seconds()
            for run in await self._recent(tenant_id, queue)
            if now - WINDOW <= run.due_at <= now
        ]
        return percentile(lags, 0.95) if lags else 0.0

    async def _duration(self, tenant_id: int, queue: str | None) -> float | None:
        """The worst task: how many times longer its runs of the last minutes took than the ones before."""
        now = await self._store.now()
        recent: dict[str, list[float]] = defaultdict(list)
        before: dict[str, list[float]] = defaultdict(list)
        for run in await self._recent(tenant_id, queue):
            if run.started_at is not None and run.finished_at is not None:
                took = (run.finished_at - run.started_at).total_seconds()
                (recent if run.finished_at > now - WINDOW else before)[run.task].append(took)
        ratios = [
            percentile(took, 0.95) / max(percentile(before[task], 0.95), 0.001)
            for task, took in recent.items()
            if len(before[task]) >= _FEW
        ]
        return max(ratios, default=None)

    async def _unserved(self, tenant_id: int, queue: str | None) -> int:
        lanes = {lane.id: lane for lane in await self._store.lanes() if lane.key.tenant_id == tenant_id}
        waiting = await unserved_lanes(self._store, lanes)
        return sum(1 for lane_id in waiting if queue in (None, lanes[lane_id].key.queue))

    async def _recent(self, tenant_id: int, queue: str | None) -> list[RunItem]:
        """The newest runs, as far as one page reads."""
        if (tenant_id, queue) not in self._runs:
            page = await self._store.list_runs(tenant_id, RunFilter(queue=queue), limit=_SAMPLE)
            self._runs[tenant_id, queue] = [run for run in page.items if run.queue != QUEUE]
        return self._runs[tenant_id, queue]


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
