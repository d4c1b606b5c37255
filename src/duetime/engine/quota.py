"""Quotas on the hot path (`ESTIMATED`), checked without counting on each submission.

A tenant's rows are counted in the store from time to time, up to its limit. Between counts, this node adds what was
submitted here. Submissions on other nodes, and jobs that end, are seen at the next count. A limit may therefore be
exceeded by what all other nodes accept between two counts, and a tenant at its limit is admitted again after about a
second. Counting takes at most a hundredth of the time, however much there is to count.

One count of a kind runs at a time, however many callers ask. A caller that finds the quota full meanwhile is refused at
once.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

from duetime.clock import monotonic
from duetime.engine.stream_kinds import USABLE
from duetime.errors import NotFound, StoreUnavailable
from duetime.model.defaults import Defaults
from duetime.model.tenant import ESTIMATED
from duetime.process.loop import retrieve_error
from duetime.store.protocol.service import Tenants
from duetime.store.rules.quotas import over_quota

_COUNT_EVERY = 10.0
_COUNT_AGAIN = 1.0
_SHARE = 0.01
"""The maximum share of time spent counting."""
REMEMBERED = 5.0
"""Seconds for which a tenant's limits and default options are cached."""
_MOST_TENANTS = 10_000


class _Estimate:
    """A tenant's usage of one kind: counted, stored here since, and in the process of being stored."""

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


class _Known(NamedTuple):
    """What is cached of a tenant."""

    read_at: float
    asked_at: float
    """When the store was last asked, even if it did not answer."""
    limits: Mapping[str, int]
    """The limits that are checked here and are set."""
    defaults: Defaults


class Quota:
    """The estimates of one event loop, and the default options of its tenants, which are read with the limits."""

    def __init__(self) -> None:
        self._estimates: dict[tuple[int, str], _Estimate] = {}
        self._tenants: dict[int, _Known] = {}

    async def limits(self, tenants: Tenants, tenant_id: int) -> Mapping[str, int]:
        """The limits of a tenant that are checked here, by name. Limits that are not set are omitted."""
        return (await self._known(tenants, tenant_id)).limits

    async def defaults(self, tenants: Tenants, tenant_id: int) -> Defaults:
        """The default options of a tenant's jobs."""
        return (await self._known(tenants, tenant_id)).defaults

    async def _known(self, tenants: Tenants, tenant_id: int) -> _Known:
        known = self._tenants.get(tenant_id)
        now = monotonic()
        if known is None or now - known.asked_at >= REMEMBERED:
            limits: Mapping[str, int] = {}
            defaults: Defaults = None
            try:
                tenant = await tenants.tenant_by_id(tenant_id)
                limits = {kind: most for kind in ESTIMATED if (most := getattr(tenant.limits, kind)) is not None}
                defaults = tenant.defaults
            except NotFound:
                pass  # a node's own jobs belong to no tenant
            except StoreUnavailable:
                # A stream accepts runs while the store is away, for as long as it is known to be the stream.
                if known is None or now - known.read_at >= USABLE:
                    raise
                known = self._tenants[tenant_id] = known._replace(asked_at=monotonic())
                return known
            if len(self._tenants) >= _MOST_TENANTS:
                self._tenants.clear()
            known = self._tenants[tenant_id] = _Known(now, monotonic(), limits, defaults)
        return known

    def forget(self) -> None:
        """Read limits and defaults from the store again: they may have changed."""
        self._tenants.clear()

    @asynccontextmanager
    async def taking(self, tenants: Tenants, tenant_id: int, needs: Mapping[str, int]) -> AsyncIterator[dict[str, int]]:
        """Reserve room for so much more of each kind, to be stored within the block. An error releases the reservation.
        Lower the yielded numbers by what turns out not to be needed. Raises `QuotaExceeded`."""
        limits = await self.limits(tenants, tenant_id)
        limited = {kind: (need, limits[kind]) for kind, need in needs.items() if need and kind in limits}
        for kind, (need, most) in limited.items():
            await self._check(tenants, tenant_id, kind, need, most)
        # No await between the last check and this, so no other caller takes the same room.
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

    async def _check(self, tenants: Tenants, tenant_id: int, kind: str, need: int, most: int) -> None:
        estimate = self._estimate(tenant_id, kind)
        if estimate.is_old(full=estimate.amount + need > most):
            await self._count(tenants, tenant_id, kind, estimate, most)
        if estimate.amount + need > most:
            raise over_quota(kind, most, estimate.amount)

    async def _count(self, tenants: Tenants, tenant_id: int, kind: str, estimate: _Estimate, most: int) -> None:
        """The caller that finds a stale estimate counts. The others use the old estimate meanwhile, if there is one."""
        first = estimate.count is None
        if estimate.count is None:
            estimate.count = asyncio.create_task(_count_anew(tenants, tenant_id, kind, estimate, most))
            estimate.count.add_done_callback(retrieve_error)
        if first or estimate.counted_at is None:
            await asyncio.shield(estimate.count)


async def _count_anew(tenants: Tenants, tenant_id: int, kind: str, estimate: _Estimate, most: int) -> None:
    before, began = estimate.stored, monotonic()
    try:
        counted = await tenants.usage(tenant_id, kind, most + 1)
    finally:
        estimate.count = None
    # What was stored meanwhile may or may not be in the count.
    estimate.stored = counted + max(0, estimate.stored - before)
    estimate.counted_at = monotonic()
    estimate.count_took = estimate.counted_at - began
