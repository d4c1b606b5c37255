"""The quota of stored jobs where schedules fire: a tenant without workers must not fill the database with runs.

What a node fires for a tenant is counted here, and what the tenant has is counted in the store after a thousand fires,
or half of what it had room for. A tenant that has as much as it may have gets no further runs of recurring jobs: their
occurrences are skipped, and say so in history. It is looked at again every ten seconds. So its limit may be passed by
what each node fires between two counts. A one-off fires in any case: it is stored already.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

import msgspec

from duetime.clock import monotonic
from duetime.errors import NotFound
from duetime.model.firing import Decided, DueJob, Fire, Skip
from duetime.store.protocol.store import PlanFires, Scan, Store

LEAST = 1_000
"""How many fires of a tenant are made at least before it is counted what the tenant has."""
_WHY = "quota: its tenant has as many stored jobs as it may have"
_UNLIMITED = 100_000
_AGAIN = 10.0
_SHARE = 0.01
"""How much of the time may be spent on counting."""


class FireQuota:
    """A store whose scanner keeps to the quotas; `as_store` is what the scanner sees of it."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._room: dict[int, int] = {}
        """How many more fires of each tenant are made before it is counted."""
        self._full: dict[int, float] = {}
        """When each tenant that has as much as it may have is looked at again."""

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        for tenant_id in [each for each, again_at in self._full.items() if monotonic() >= again_at]:
            await self._count(tenant_id)
        fired: Counter[int] = Counter()

        def within_quota(due: Sequence[DueJob], now: datetime) -> Sequence[Decided]:
            decided = plan(due, now)
            fired.update([each.lane.tenant_id for each in decided if isinstance(each, Fire) and each.recurring])
            return [self._held_to_quota(each) for each in decided] if self._full else decided

        scan = await self._store.fire_due(limit, within_quota, without)
        for tenant_id, count in fired.items():
            self._room[tenant_id] = self._room.get(tenant_id, LEAST) - count
            if self._room[tenant_id] <= 0 and tenant_id not in self._full and tenant_id > 0:
                await self._count(tenant_id)
        return scan

    def _held_to_quota(self, fire: Decided) -> Decided:
        if not isinstance(fire, Fire) or not fire.recurring or fire.lane.tenant_id not in self._full:
            return fire
        if fire.next_fire_at is None:
            return fire  # the last one of its job adds a run, and ends the job
        skips = [Skip(run.run_id, run.due_at, _WHY) for run in fire.runs]
        return msgspec.structs.replace(fire, runs=(), skips=(*fire.skips, *skips), replaces=False)

    async def _count(self, tenant_id: int) -> None:
        began = monotonic()
        try:
            most = (await self._store.tenant_by_id(tenant_id)).limits.stored_jobs
        except NotFound:
            most = None
        left = _UNLIMITED if most is None else most - await self._store.usage(tenant_id, "stored_jobs", most)
        if left > 0:
            self._full.pop(tenant_id, None)
            self._room[tenant_id] = _UNLIMITED if most is None else max(LEAST, left // 2)
        else:
            now = monotonic()
            self._full[tenant_id] = now + max(_AGAIN, (now - began) / _SHARE)
