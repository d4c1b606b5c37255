"""The surveyor reads database-wide figures periodically, so that a scrape runs no query.

Every node has one. The figures are the same on all nodes, and cheap: estimates, and counts that stop at a cap.
"""

from collections.abc import Callable
from datetime import timedelta

from duetime.clock import monotonic
from duetime.engine.queue_figures import QueueFigures
from duetime.model.breaker import BreakerState
from duetime.model.job import INTERNAL_TENANT
from duetime.model.lane import Tier
from duetime.model.tenant import DEFAULT_TIER
from duetime.store.protocol.service import Survey
from duetime.store.protocol.store import Store
from duetime.store.shared.awake_lanes import LaneFollower
from duetime.telemetry.meters import Gauge, Meters

_TENANTS_EVERY = 60.0
_TENANTS_AT_ONCE = 1000

Labelled = dict[tuple[str, ...], float]


class Surveyor:
    def __init__(
        self,
        store: Store,
        meters: Meters,
        *,
        know_tiers: Callable[[dict[int, str]], None],
        unserved: Callable[[], int],
        queues: QueueFigures | None = None,
        interval: timedelta = timedelta(seconds=10),
    ) -> None:
        self._store = store
        self._know_tiers = know_tiers
        self._queues = queues
        self._interval = interval.total_seconds()
        self._lanes = LaneFollower(store.claims)
        self._tenants_read_at: float | None = None
        self._read_at = 0.0
        self._figures: Survey | None = None
        self._oldest = 0.0
        self._workers: Labelled = {}
        self._slots = 0
        self._gauges = meters.gauges
        self._shown: dict[str, Gauge] = {
            "duetime_queue_depth": self._depth,
            "duetime_oldest_due_age_seconds": lambda: {(): self._oldest},
            "duetime_dead_letters": lambda: {(): float(self._read.dead_letters)},
            "duetime_breakers": self._breakers,
            "duetime_workers": lambda: self._workers,
            "duetime_fleet_slots": lambda: {(): float(self._slots)},
            "duetime_unserved_lanes": lambda: {(): float(unserved())},
            "duetime_table_rows": lambda: {(table.name,): float(table.rows) for table in self._read.tables},
            "duetime_table_size_bytes": self._sizes,
            "duetime_database_size_bytes": lambda: {(): float(self._read.size)},
            "duetime_survey_age_seconds": lambda: {(): monotonic() - self._read_at},
        }
        if queues is not None:
            self._shown |= queues.gauges

    async def tick(self) -> float:
        if self._tenants_read_at is None or monotonic() - self._tenants_read_at >= _TENANTS_EVERY:
            await self._read_tiers()
        self._figures = await self._store.survey.survey()
        await self._read_lanes()
        await self._read_workers()
        self._read_at = monotonic()
        self._gauges.update(self._shown)  # after the first survey: unread figures must not appear as 0
        return self._interval

    @property
    def _read(self) -> Survey:
        assert self._figures is not None
        return self._figures

    def _depth(self) -> Labelled:
        return {(tier.name.lower(),): float(self._read.waiting.get(tier, 0)) for tier in Tier}

    def _breakers(self) -> Labelled:
        states = (state for state in BreakerState if state is not BreakerState.CLOSED)
        return {(state.name.lower(),): float(self._read.breakers.get(state, 0)) for state in states}

    def _sizes(self) -> Labelled:
        return {(table.name,): float(table.size) for table in self._read.tables if table.size is not None}

    async def _read_tiers(self) -> None:
        tiers: dict[int, str] = {}
        shown = frozenset[int]() if self._queues is None else self._queues.tenants
        after = 0
        while True:
            found = await self._store.tenants.tenants(after, _TENANTS_AT_ONCE)
            tiers.update((tenant.id, tenant.tier) for tenant in found if tenant.tier != DEFAULT_TIER)
            if self._queues is not None:
                self._queues.name({tenant.id: tenant.name for tenant in found if tenant.id in shown})
            if len(found) < _TENANTS_AT_ONCE:
                break
            after = found[-1].id
        self._know_tiers(tiers)
        self._tenants_read_at = monotonic()

    async def _read_lanes(self) -> None:
        await self._lanes.read()
        paused = await self._store.claims.paused_lanes()
        look = await self._store.claims.look([lane_id for lane_id in self._lanes.by_id if lane_id not in paused], 1)
        ages = ((look.now - sight.ready_at[0]).total_seconds() for sight in look.sights)
        self._oldest = max(0.0, max(ages, default=0.0))
        if self._queues is not None:
            await self._queues.read(self._lanes.by_id, look)

    async def _read_workers(self) -> None:
        now = await self._store.now()
        workers = [worker for worker in await self._store.leases.workers() if worker.tenant_id != INTERNAL_TENANT]
        alive = [worker for worker in workers if worker.lease_until > now]
        self._workers = {(state, kind): 0.0 for state in ("alive", "silent") for kind in ("tasks", "targets")}
        for worker in workers:
            state = "alive" if worker.lease_until > now else "silent"
            self._workers[state, "tasks" if worker.runs_tasks else "targets"] += 1
        self._slots = sum(worker.slots for worker in alive)


class LoopLag:
    """Measures how late the event loop runs timers: anything that blocks the loop delays everything in this process. It
    also updates the pulse, which threads watch: a loop that is blocked for good stops updating it."""

    def __init__(self, meters: Meters, *, interval: float = 0.25) -> None:
        self._meters = meters
        self._interval = interval
        self._expected: float | None = None
        pulse = meters.pulse
        meters.gauges["duetime_event_loop_stalled_seconds"] = lambda: {(): pulse.stalled}

    async def tick(self) -> float:
        self._meters.pulse.stamp()
        now = monotonic()
        if self._expected is not None:
            self._meters.loop_lag.add(max(0.0, now - self._expected))
        self._expected = now + self._interval
        return self._interval
