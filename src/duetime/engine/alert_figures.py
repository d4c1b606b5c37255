"""The figures that alert rules watch. Each is read with bounded effort, and once for all rules of a round."""

import math
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from duetime.engine.alert_subjects import SubjectReadings
from duetime.engine.watcher import unserved_lanes
from duetime.ids import first_id_at
from duetime.model.alert import OF_SUBJECTS, Alert, Figure, Reading
from duetime.model.lane import Lane
from duetime.model.lists import RunFilter, RunItem
from duetime.model.notification import QUEUE
from duetime.model.worker import Worker
from duetime.store.protocol.service import ClockSeen
from duetime.store.protocol.store import Store

WINDOW = timedelta(minutes=5)
_BEFORE = timedelta(days=1)
_SAMPLE = 1000
_SLICES = 10
_CAP = 1_000_000
_MORE = 10_000
"""How far beyond its threshold a figure is counted."""
_INSTANT = timedelta(microseconds=1)
_MILLISECOND = timedelta(milliseconds=1)
_FEW = 20
"""Fewer runs than this are too small a sample for a usual duration."""


class Readings:
    """The figures of one round. A figure that several rules need is read once."""

    def __init__(self, store: Store, seen: ClockSeen) -> None:
        self._store = store
        self._subjects = SubjectReadings(store, seen, self.awake_lanes)
        self._workers: dict[int, list[Worker]] = {}
        self._lately: dict[tuple[int, str | None], list[RunItem]] = {}
        self._lanes: list[Lane] | None = None
        self._held: dict[UUID, int] | None = None

    async def of(self, alert: Alert) -> Reading:
        """The current value."""
        if alert.rule.paused:
            return Reading(None, excused=True)
        if alert.rule.figure in OF_SUBJECTS:
            return await self._subjects.of(alert)
        return Reading(await self._of_queues(alert))

    async def _of_queues(self, alert: Alert) -> float | None:
        """None when there is no data to judge by."""
        tenant_id, queue = alert.tenant_id, alert.rule.queue
        match alert.rule.figure:
            case Figure.DEAD_LETTERS:
                return float(await self._store.notifications.count_dead_letters(tenant_id, queue, _cap(alert)))
            case Figure.BACKLOG:
                return float(await self._store.notifications.count_ready(tenant_id, queue, _cap(alert), without=QUEUE))
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
            case _:
                return None

    async def _alive(self, tenant_id: int, queue: str | None) -> list[Worker]:
        if tenant_id not in self._workers:
            now = await self._store.now()
            found = await self._store.leases.workers(tenant_id)
            self._workers[tenant_id] = [each for each in found if each.lease_until > now and each.runs_tasks]
        return [each for each in self._workers[tenant_id] if queue is None or not each.queues or queue in each.queues]

    async def _free_slots(self, tenant_id: int, queue: str | None) -> int:
        if self._held is None:
            self._held = await self._store.notifications.held_slots()
        workers = await self._alive(tenant_id, queue)
        return sum(max(0, worker.slots - self._held.get(worker.id, 0)) for worker in workers)

    async def _lag(self, tenant_id: int, queue: str | None) -> float:
        """The lag of runs that became due in the last minutes, and of older runs that still wait for their first start.
        A waiting run counts with its lag so far."""
        now = await self._store.now()
        lags = [((run.first_started_at or now) - run.due_at) for run in await self._due_lately(tenant_id, queue)]
        paused = await self._store.claims.paused_lanes()
        lanes = [lane.id for lane in await self._lanes_of(tenant_id, queue) if lane.id not in paused]
        look = await self._store.claims.look(lanes, _SAMPLE // _SLICES)
        late = [
            run_id
            for sight in look.sights
            for ready, run_id in zip(sight.ready_at, sight.run_ids, strict=True)
            if ready < now - WINDOW
        ]
        if late:
            # Of very many, every nth: a lane shows those first that have waited for longest.
            some = late[:: 1 + len(late) // _MORE]
            lags += [now - due for due in await self._store.alert_subjects.unstarted(some)]
        return percentile((lag.total_seconds() for lag in lags), 0.95) if lags else 0.0

    async def _duration(self, tenant_id: int, queue: str | None) -> float | None:
        """The worst task: how many times longer its runs of the last minutes took than earlier runs."""
        now = await self._store.now()
        recent: dict[str, list[float]] = defaultdict(list)
        before: dict[str, list[float]] = defaultdict(list)
        for run in await self._usual(tenant_id, queue, now) + await self._due_lately(tenant_id, queue):
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
        lanes = {lane.id: lane for lane in await self._lanes_of(tenant_id, queue, letters=True)}
        return len(await unserved_lanes(self._store, lanes))

    async def awake_lanes(self) -> list[Lane]:
        if self._lanes is None:
            self._lanes = await self._store.claims.lanes()
        return self._lanes

    async def _lanes_of(self, tenant_id: int, queue: str | None, *, letters: bool = False) -> list[Lane]:
        keys = ((lane, lane.key) for lane in await self.awake_lanes())
        return [
            lane
            for lane, key in keys
            if key.tenant_id == tenant_id and queue in (None, key.queue) and (letters or key.queue != QUEUE)
        ]

    async def _due_lately(self, tenant_id: int, queue: str | None) -> list[RunItem]:
        """A sample of runs from the whole of the last minutes. The newest runs alone may all be from the last
        second."""
        if (tenant_id, queue) not in self._lately:
            now = await self._store.now()
            wanted = RunFilter(queue=queue, due_from=now - WINDOW, due_until=now + _INSTANT)
            # The submitter's clock determines the id. If that clock is ahead, only an unbounded read finds the newest
            # runs.
            newest = await self._page(tenant_id, wanted, None, _SAMPLE // _SLICES)
            found = {run.id: run for run in newest + await self._spread(tenant_id, wanted, now - WINDOW, now)}
            self._lately[tenant_id, queue] = list(found.values())
        return self._lately[tenant_id, queue]

    async def _usual(self, tenant_id: int, queue: str | None, now: datetime) -> list[RunItem]:
        """The newest earlier runs. If those cover only a few moments, a sample from a whole day."""
        until = now - WINDOW
        wanted = RunFilter(queue=queue, due_until=until)
        newest = await self._page(tenant_id, wanted, until, _SAMPLE)
        if len(newest) < _SAMPLE:
            return newest
        wanted = RunFilter(queue=queue, due_from=until - _BEFORE, due_until=until)
        return await self._spread(tenant_id, wanted, until - _BEFORE, until)

    async def _spread(self, tenant_id: int, wanted: RunFilter, start: datetime, end: datetime) -> list[RunItem]:
        """A sample of runs between two moments, with an equal maximum for each slice of the range: the newest runs
        before each slice's end. A slice with few runs reads on into the previous slice, where the same runs are found
        again."""
        found: dict[UUID, RunItem] = {}
        for part in range(_SLICES, 0, -1):
            bound = start + (end - start) * part / _SLICES
            found |= {run.id: run for run in await self._page(tenant_id, wanted, bound, _SAMPLE // _SLICES)}
        return list(found.values())

    async def _page(self, tenant_id: int, wanted: RunFilter, bound: datetime | None, limit: int) -> list[RunItem]:
        """The newest runs due before `bound`, as far as one page reads. An id begins with the due time, so later runs
        are not read. With jitter a run is due later than its id says, and is still found."""
        before = None if bound is None else first_id_at(bound + _MILLISECOND)
        page = await self._store.lists.list_runs(tenant_id, wanted, before, limit)
        return [run for run in page.items if run.queue != QUEUE]


def _cap(alert: Alert) -> int:
    return min(_CAP, int(alert.rule.threshold) + _MORE)


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[max(0, math.ceil(len(ordered) * share) - 1)]
