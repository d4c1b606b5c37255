"""What an event loop knows of streams: the kinds of queues, what is in their streams, the connections to brokers."""

import asyncio
from collections.abc import Iterable

from duetime.clock import monotonic
from duetime.engine.stream_depths import NOTHING, SAMPLED, Sample, StreamDepths
from duetime.engine.stream_kinds import Kind, StreamKinds
from duetime.errors import StoreUnavailable
from duetime.model.carried import StreamQueue, why_stored
from duetime.model.job import NewJob
from duetime.model.tenant import TenantState
from duetime.process.loop import retrieve_error
from duetime.store.protocol.service import Tenants
from duetime.store.protocol.streams import Streams
from duetime.store.rules.tenant_states import may_not_submit
from duetime.streams.publisher import Publisher

_LIMITS_REMEMBERED = 5.0
"""Seconds for which the limits of a tenant are cached."""


class Streaming:
    def __init__(self) -> None:
        self.kinds = StreamKinds()
        self.publisher = Publisher()
        self.depths = StreamDepths(self.publisher)
        self._limited: dict[int, tuple[float, bool]] = {}
        self._states: dict[int, TenantState] = {}
        self._reading: dict[int, asyncio.Task[bool]] = {}

    def carrying(self, tenant_id: int, job: NewJob) -> str | None:
        """The queue whose stream carries this job, as far as is known without asking; None: the store takes it."""
        queues = self.kinds.tenants.get(tenant_id)
        if queues is None:
            return None
        kind = queues.get(job.lane.queue)
        return None if kind is None or kind.current is None or why_stored(job) else job.lane.queue

    async def sample(self, streams: Streams, tenant_id: int, *, within: float = SAMPLED) -> Sample | None:
        """What is in the streams of a tenant; None if it has none."""
        await self.kinds.renew(streams, wait=False)
        queues = self.kinds.tenants.get(tenant_id)
        if queues is None:
            return None
        return await self.depths.sample(tenant_id, generations(queues.values()), within=within)

    async def has_streams(self, streams: Streams, tenant_id: int) -> bool:
        """Whether a queue of the tenant goes through a stream, or did so lately."""
        await self.kinds.renew(streams, wait=False)
        return tenant_id in self.kinds.tenants

    async def glance(self, streams: Streams, tenant_id: int) -> Sample:
        """The same for a list, which does not wait for a broker that is slow to answer."""
        await self.kinds.renew(streams, wait=False)
        queues = self.kinds.tenants.get(tenant_id)
        return NOTHING if queues is None else await self.depths.glance(tenant_id, generations(queues.values()))

    async def is_limited(self, tenants: Tenants, tenant_id: int) -> bool:
        """Whether the tenant has a limit on running runs, which only claims enforce."""
        known = self._known_limit(tenant_id)
        if known is not None:
            return known
        read_at, found = self._limited.get(tenant_id, (None, False))
        reading = self._reading.get(tenant_id)
        if reading is None:
            reading = self._reading[tenant_id] = asyncio.create_task(self._read_limit(tenants, tenant_id))
            reading.add_done_callback(retrieve_error)
        elif read_at is not None:
            return found  # another caller reads it
        try:
            return await asyncio.shield(reading)
        except StoreUnavailable:
            if read_at is None:
                raise
            self._limited[tenant_id] = monotonic(), found  # it is not asked again for each submission
            return found

    def is_free(self, tenant_id: int) -> bool:
        """Whether `is_limited` and `check_state` would find an active tenant without that limit, without asking."""
        return self._known_limit(tenant_id) is False and self._states.get(tenant_id) is TenantState.ACTIVE

    def _known_limit(self, tenant_id: int) -> bool | None:
        """What was read of the limit; None if that was too long ago."""
        read_at, found = self._limited.get(tenant_id, (None, False))
        return None if read_at is None or monotonic() - read_at > _LIMITS_REMEMBERED else found

    async def check_state(self, tenants: Tenants, tenant_id: int) -> None:
        """Refuse new messages of a tenant that is not active, as the store refuses rows. A broker does not know: the
        state is as old as `is_limited`."""
        await self.is_limited(tenants, tenant_id)
        if (state := self._states.get(tenant_id, TenantState.ACTIVE)) is not TenantState.ACTIVE:
            raise may_not_submit(state)

    async def _read_limit(self, tenants: Tenants, tenant_id: int) -> bool:
        try:
            tenant = await tenants.tenant_by_id(tenant_id)
            found = tenant.limits.running_runs is not None
            self._states[tenant_id] = tenant.state
        finally:
            del self._reading[tenant_id]
        self._limited[tenant_id] = monotonic(), found
        return found

    async def close(self) -> None:
        await self.publisher.close()


def generations(kinds: Iterable[Kind]) -> list[StreamQueue]:
    return [queue for kind in kinds for queue in kind.generations]
