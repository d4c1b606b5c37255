"""The watcher reports due runs that no live worker can take.

Such runs wait without any other sign. The watcher logs each lane once and notifies listeners, until a worker that
provides the task appears. A lane is reported when it was found twice in a row: a node that has just started may look
before its own worker has registered.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import timedelta
from uuid import UUID

from duetime.ids import show
from duetime.model.event import EventKind
from duetime.model.job import INTERNAL_TENANT
from duetime.model.lane import Lane
from duetime.model.target import kind_of
from duetime.model.worker import Worker
from duetime.store.protocol.store import Store
from duetime.store.shared.awake_lanes import LaneFollower

log = logging.getLogger("duetime.watcher")

GRACE = timedelta(seconds=5)
"""Leaves a restarting worker time to come back."""


class Watcher:
    def __init__(self, store: Store, *, interval: timedelta = timedelta(seconds=5)) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._lanes = LaneFollower(store.claims)
        self._found: set[int] = set()
        """The lanes of the last tick."""
        self._reported: set[int] = set()

    @property
    def unserved(self) -> int:
        """How many lanes hold due runs that no worker can take."""
        return len(self._reported)

    async def tick(self) -> float:
        await self._lanes.read()
        lanes = self._lanes.by_id
        # A node serves its own internal jobs itself.
        others = {lane_id: lane for lane_id, lane in lanes.items() if lane.key.tenant_id != INTERNAL_TENANT}
        waiting = await unserved_lanes(self._store, others)
        confirmed = waiting.keys() & self._found
        by_tenant: dict[int, list[UUID]] = defaultdict(list)
        for lane_id in confirmed - self._reported:
            key, run_id = others[lane_id].key, waiting[lane_id]
            by_tenant[key.tenant_id].append(run_id)
            log.warning(
                "no_worker: %s is due, and no live worker provides the task %s for the queue %s",
                show("run", run_id),
                key.task,
                key.queue,
            )
        for tenant_id, run_ids in by_tenant.items():
            await self._store.events.append_events(EventKind.NO_WORKER, tenant_id, run_ids)
        self._found, self._reported = set(waiting), confirmed
        return self._interval


async def unserved_lanes(store: Store, lanes: Mapping[int, Lane]) -> dict[int, UUID]:
    """The lanes with due runs that no worker serves, each with its first waiting run."""
    now = await store.now()
    alive = [worker for worker in await store.leases.workers() if worker.lease_until > now]
    unserved = [lane.id for lane in lanes.values() if not _is_served(lane, alive)]
    if not unserved:
        return {}
    look = await store.claims.look(unserved, 1)
    return {sight.lane_id: sight.run_ids[0] for sight in look.sights if sight.ready_at[0] <= look.now - GRACE}


def _is_served(lane: Lane, workers: Iterable[Worker]) -> bool:
    key = lane.key
    return any(
        kind_of(key.task) in worker.tasks
        and (not worker.queues or key.queue in worker.queues)
        and worker.tenant_id in (None, key.tenant_id)
        for worker in workers
    )
