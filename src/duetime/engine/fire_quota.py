"""The quota of stored jobs, applied where schedules fire: a tenant without workers must not fill the database with
runs.

Each node counts what it fires for a tenant. It counts the tenant's stored jobs after 1,000 fires, or after half of the
remaining room. A tenant at its limit gets no further runs of recurring jobs: their occurrences are skipped, and history
records the reason. The tenant is checked again every ten seconds. The limit may therefore be exceeded by what each node
fires between two counts. A one-off job always fires: it is stored already.
"""

import copy
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import NotFound
from duetime.model.firing import Decided, DueJob, Fire, Skip
from duetime.store.protocol.service import Tenants
from duetime.store.protocol.store import Firing, PlanFires, Scan, Store
from duetime.store.wrappers.overlay import overlay

LEAST = 1_000
"""The minimum number of fires of a tenant between two counts."""
_WHY = "quota: the tenant is at its limit of stored jobs"
_UNLIMITED = 100_000
_AGAIN = 10.0
_SHARE = 0.01
"""The maximum share of time spent counting."""


def with_fire_quota(store: Store) -> Store:
    """This store, for a scanner that respects the quotas."""
    made = copy.copy(store)
    made.firing = overlay(store.firing, FireQuota(store.firing, store.tenants))
    return made


class FireQuota:
    def __init__(self, inner: Firing, tenants: Tenants) -> None:
        self._inner = inner
        self._tenants = tenants
        self._room: dict[int, int] = {}
        """How many more fires of each tenant are made before the next count."""
        self._full: dict[int, float] = {}
        """When each tenant at its limit is checked again."""

    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        for tenant_id in [each for each, again_at in self._full.items() if monotonic() >= again_at]:
            await self._count(tenant_id)
        fired: Counter[int] = Counter()

        def within_quota(due: Sequence[DueJob], now: datetime) -> Sequence[Decided]:
            decided = plan(due, now)
            fired.update([each.lane.tenant_id for each in decided if isinstance(each, Fire) and each.recurring])
            return [self._held_to_quota(each) for each in decided] if self._full else decided

        scan = await self._inner.fire_due(limit, within_quota, without)
        for tenant_id, count in fired.items():
            self._room[tenant_id] = self._room.get(tenant_id, LEAST) - count
            if self._room[tenant_id] <= 0 and tenant_id not in self._full and tenant_id > 0:
                await self._count(tenant_id)
        return scan

    def _held_to_quota(self, fire: Decided) -> Decided:
        if not isinstance(fire, Fire) or not fire.recurring or fire.lane.tenant_id not in self._full:
            return fire
        if fire.next_fire_at is None:
            return fire  # the job's last fire adds a run and ends the job
        skips = [Skip(run.run_id, run.due_at, _WHY) for run in fire.runs]
        return msgspec.structs.replace(fire, runs=(), skips=(*fire.skips, *skips), replaces=False)

    async def _count(self, tenant_id: int) -> None:
        began = monotonic()
        try:
            most = (await self._tenants.tenant_by_id(tenant_id)).limits.stored_jobs
        except NotFound:
            most = None
        left = _UNLIMITED if most is None else most - await self._tenants.usage(tenant_id, "stored_jobs", most)
        if left > 0:
            self._full.pop(tenant_id, None)
            self._room[tenant_id] = _UNLIMITED if most is None else max(LEAST, left // 2)
        else:
            now = monotonic()
            self._full[tenant_id] = now + max(_AGAIN, (now - began) / _SHARE)
