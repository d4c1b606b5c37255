"""The quota of stored jobs, checked at intake without counting for each submission.

What a tenant has is counted in the store now and then, up to its limit; in between, what was submitted here is added.
Other nodes' submissions, and jobs that end, are seen at the next count. So the limit may be passed by what all other
nodes take in between two counts, and a tenant at its limit is let in again after a second at most.

One count of a tenant is under way at a time, however many ask: who finds the quota full meanwhile is refused at once.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from duetime.clock import monotonic
from duetime.errors import QuotaExceeded
from duetime.loop import not_missed
from duetime.model.tenant import Tenant
from duetime.store.roles import Tenancy

_COUNT_EVERY = 10.0
_COUNT_AGAIN = 1.0


class _Estimate:
    """What a tenant has: counted, stored here since, and being stored."""

    def __init__(self) -> None:
        self.stored = 0
        self.being_stored = 0
        self.counted_at: float | None = None
        self.count: asyncio.Task[None] | None = None

    @property
    def jobs(self) -> int:
        return self.stored + self.being_stored

    def is_old(self, *, full: bool) -> bool:
        return self.counted_at is None or monotonic() - self.counted_at >= (_COUNT_AGAIN if full else _COUNT_EVERY)


class Taken:
    """Room for jobs. Those that turn out to be there already, or are not stored, do not need it."""

    def __init__(self, count: int) -> None:
        self.needed = count


class Quota:
    def __init__(self, store: Tenancy) -> None:
        self._store = store
        self._estimates: dict[int, _Estimate] = {}

    @asynccontextmanager
    async def taking(self, tenant: Tenant, count: int) -> AsyncIterator[Taken]:
        """Room for `count` more jobs, which are stored within the block; after an error it is given back. Raises
        `QuotaExceeded` when the tenant may not have them."""
        taken, limit = Taken(count), tenant.limits.stored_jobs
        if limit is None:
            yield taken
            return
        estimate = self._estimates.setdefault(tenant.id, _Estimate())
        if estimate.is_old(full=estimate.jobs + count > limit):
            await self._count(tenant.id, estimate, limit)
        if estimate.jobs + count > limit:
            raise QuotaExceeded(
                f"the tenant {tenant.name!r} may have {limit:,} stored jobs, and has about {estimate.jobs:,}",
                remedy="wait until some have ended, delete some, or ask for a higher limit",
            )
        estimate.being_stored += count
        try:
            yield taken
        except BaseException:
            taken.needed = 0
            raise
        finally:
            estimate.being_stored -= count
            estimate.stored += taken.needed

    async def _count(self, tenant_id: int, estimate: _Estimate, limit: int) -> None:
        """Whoever finds an estimate that is too old counts; the others go by it meanwhile, if there is one."""
        first = estimate.count is None
        if estimate.count is None:
            estimate.count = asyncio.create_task(self._count_anew(tenant_id, estimate, limit))
            estimate.count.add_done_callback(not_missed)
        if first or estimate.counted_at is None:
            await asyncio.shield(estimate.count)

    async def _count_anew(self, tenant_id: int, estimate: _Estimate, limit: int) -> None:
        before = estimate.stored
        try:
            counted = await self._store.stored_jobs(tenant_id, limit + 1)
        finally:
            estimate.count = None
        # What was stored meanwhile may be among what was counted, or not.
        estimate.stored = counted + max(0, estimate.stored - before)
        estimate.counted_at = monotonic()
