"""The quota of stored jobs, checked at intake without counting for each submission.

What a tenant has is counted in the store now and then, up to its limit; in between, what was submitted here is added.
Other nodes' submissions, and jobs that end, are seen at the next count. So the limit may be passed by what all nodes
take in between two counts, and a tenant at its limit is let in again after a second at most.
"""

from duetime.clock import monotonic
from duetime.errors import QuotaExceeded
from duetime.model.tenant import Tenant
from duetime.store.roles import Tenancy

_COUNT_EVERY = 10.0
_COUNT_AGAIN = 1.0


class _Estimate:
    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self.counted_at = monotonic()


class Quota:
    def __init__(self, store: Tenancy) -> None:
        self._store = store
        self._estimates: dict[int, _Estimate] = {}

    async def take(self, tenant: Tenant, count: int) -> None:
        """Make room for `count` more jobs. Raises `QuotaExceeded` when the tenant may not have them."""
        limit = tenant.limits.stored_jobs
        if limit is None:
            return
        estimate = self._estimates.get(tenant.id)
        age = 0.0 if estimate is None else monotonic() - estimate.counted_at
        full = estimate is not None and estimate.jobs + count > limit
        if estimate is None or age >= _COUNT_EVERY or (full and age >= _COUNT_AGAIN):
            estimate = self._estimates[tenant.id] = _Estimate(await self._store.stored_jobs(tenant.id, limit + 1))
        if estimate.jobs + count > limit:
            raise QuotaExceeded(
                f"the tenant {tenant.name!r} may have {limit:,} stored jobs, and has about {estimate.jobs:,}",
                remedy="wait until some have ended, delete some, or ask for a higher limit",
            )
        estimate.jobs += count

    def give_back(self, tenant: Tenant, count: int) -> None:
        """What was taken was not stored after all."""
        estimate = self._estimates.get(tenant.id)
        if estimate is not None:
            estimate.jobs -= count
