"""Quotas of what is stored on the hot path (`ESTIMATED`), checked without counting for each submission.

What a tenant has is counted in the store now and then, up to its limit; in between, what was submitted here is added.
Other nodes' submissions, and jobs that end, are seen at the next count. So a limit may be passed by what all other
nodes take in between two counts, and a tenant at its limit is let in again after a second or so. Counting takes at most
a hundredth of the time, however much there is to count.

One count of a kind is under way at a time, however many callers ask: a caller that finds the quota full meanwhile is
refused at once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from duetime.clock import monotonic
from duetime.errors import NotFound
from duetime.model.tenant import ESTIMATED
from duetime.process.loop import not_missed
from duetime.store.protocol.service import Tenancy
from duetime.store.rules.quotas import over_quota

_COUNT_EVERY = 10.0
_COUNT_AGAIN = 1.0
_SHARE = 0.01
"""How much of the time may be spent on counting."""
_REMEMBERED = 5.0
"""Seconds that the limits of a tenant are remembered."""
_MOST_TENANTS = 10_000


class _Estimate:
    """What a tenant has of a kind: counted, stored here since, and being stored."""

    def __init__(self) -> None:
        self.stored = 0
        self.being_stored = 0
        self.counted_at: float | None = None
        self.count_took = 0.0
        self.count: asyncio.Task[None] | None = None

    @property
    def amount(self) -> int:
        return self.stored + self.being_stored

    def is_old(self, *, full: bool) -> bool:
        if self.counted_at is None:
            return True
        wait = max(_COUNT_AGAIN if full else _COUNT_EVERY, self.count_took / _SHARE)
        return monotonic() - self.counted_at >= wait


class Quota:
    """The estimates of one event loop."""

    def __init__(self) -> None:
        self._estimates: dict[tuple[int, str], _Estimate] = {}
        self._limits: dict[int, tuple[float, Mapping[str, int]]] = {}

    async def limits(self, store: Tenancy, tenant_id: int) -> Mapping[str, int]:
        """The limits of a tenant that are checked here, by name; those that are not set are left out."""
        read_at, found = self._limits.get(tenant_id, (None, {}))
        if read_at is None or monotonic() - read_at >= _REMEMBERED:
            try:
                limits = (await store.tenant_by_id(tenant_id)).limits
                found = {kind: most for kind in ESTIMATED if (most := getattr(limits, kind)) is not None}
            except NotFound:
                found = {}  # what a node makes for itself is no tenant's
            if len(self._limits) >= _MOST_TENANTS:
                self._limits.clear()
            self._limits[tenant_id] = monotonic(), found
        return found

    def forget(self) -> None:
        """Ask the store again for the limits: something was changed here."""
        self._limits.clear()

    @asynccontextmanager
    async def taking(self, store: Tenancy, tenant_id: int, needs: Mapping[str, int]) -> AsyncIterator[dict[str, int]]:
        """Room for so much more of each kind, which is stored within the block; after an error it is given back. What
        turns out not to be needed is to be lowered in what this yields. Raises `QuotaExceeded`."""
        limits = await self.limits(store, tenant_id)
        limited = {kind: (need, limits[kind]) for kind, need in needs.items() if need and kind in limits}
        for kind, (need, most) in limited.items():
            await self._check(store, tenant_id, kind, need, most)
        # Between the last look and this nothing is awaited, so no other caller takes the same room.
        estimates = {kind: self._estimate(tenant_id, kind) for kind in limited}
        for kind, (need, most) in limited.items():
            if estimates[kind].amount + need > most:
                raise over_quota(kind, most, estimates[kind].amount)
        for kind, (need, _) in limited.items():
            estimates[kind].being_stored += need
        taken = dict(needs)
        try:
            yield taken
        except BaseException:
            taken = {}
            raise
        finally:
            for kind, (need, _) in limited.items():
                estimates[kind].being_stored -= need
                estimates[kind].stored += taken.get(kind, 0)

    def _estimate(self, tenant_id: int, kind: str) -> _Estimate:
        return self._estimates.setdefault((tenant_id, kind), _Estimate())

    async def _check(self, store: Tenancy, tenant_id: int, kind: str, need: int, most: int) -> None:
        estimate = self._estimate(tenant_id, kind)
        if estimate.is_old(full=estimate.amount + need > most):
            await self._count(store, tenant_id, kind, estimate, most)
        if estimate.amount + need > most:
            raise over_quota(kind, most, estimate.amount)

    async def _count(self, store: Tenancy, tenant_id: int, kind: str, estimate: _Estimate, most: int) -> None:
        """The caller that finds an estimate too old counts; the others go by it meanwhile, if there is one."""
        first = estimate.count is None
        if estimate.count is None:
            estimate.count = asyncio.create_task(_count_anew(store, tenant_id, kind, estimate, most))
            estimate.count.add_done_callback(not_missed)
        if first or estimate.counted_at is None:
            await asyncio.shield(estimate.count)


async def _count_anew(store: Tenancy, tenant_id: int, kind: str, estimate: _Estimate, most: int) -> None:
    before, began = estimate.stored, monotonic()
    try:
        counted = await store.usage(tenant_id, kind, most + 1)
    finally:
        estimate.count = None
    # What was stored meanwhile may be among what was counted, or not.
    estimate.stored = counted + max(0, estimate.stored - before)
    estimate.counted_at = monotonic()
    estimate.count_took = estimate.counted_at - began
