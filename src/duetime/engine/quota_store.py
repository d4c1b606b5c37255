"""Roles that apply the quotas of the hot path to callers: to an app beside its store, or to a server.

Rows that a node adds itself (fires, retries, notifications) bypass it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Generic, TypeVar
from uuid import UUID

from duetime.engine.quota import Quota
from duetime.errors import QuotaExceeded
from duetime.model.attempt import Run
from duetime.model.carried import CarriedRun, Landed, UnderClaim
from duetime.model.defaults import Defaults
from duetime.model.firing import Backfill
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import NewJob, Submitted
from duetime.model.lists import DeadFilter, Replayed, ReplayPace
from duetime.model.tenant import Tenant, TenantChange
from duetime.store.protocol.graphs import Graphs
from duetime.store.protocol.service import Replay, Tenants
from duetime.store.protocol.store import Control, Intake, Store
from duetime.store.protocol.streams import Streams
from duetime.store.rules.caller_keys import IDEMPOTENCY, keys_of
from duetime.store.wrappers.overlay import wrapped

S = TypeVar("S", bound=Store)
R = TypeVar("R")


def with_quotas(store: S, quota: Quota) -> S:
    """This store, with the quotas applied to its callers."""
    room = _Room(store, quota)
    return wrapped(
        store,
        room,
        tenants=QuotaTenants,
        intake=QuotaIntake,
        graphs=QuotaGraphs,
        control=QuotaControl,
        replay=QuotaReplay,
        streams=QuotaStreams,
    )


class _Room:
    """Room within the quotas for what a request adds."""

    def __init__(self, store: Store, quota: Quota) -> None:
        self._tenants = store.tenants
        self._intake = store.intake
        self._quota = quota

    async def is_limited(self, tenant_id: int) -> bool:
        return bool(await self._quota.limits(self._tenants, tenant_id))

    def forget(self) -> None:
        self._quota.forget()

    def taking(self, tenant_id: int, needs: dict[str, int]) -> AbstractAsyncContextManager[dict[str, int]]:
        return self._quota.taking(self._tenants, tenant_id, needs)

    @asynccontextmanager
    async def for_runs(self, tenant_id: int, count: int, request: KeyedRequest | None) -> AsyncIterator[None]:
        needs = {"stored_jobs": count, "idempotency_keys": int(request is not None)}
        async with self.for_request(tenant_id, needs, None if request is None else request.key) as taken:
            yield
            if request is not None and request.replayed:
                taken.clear()

    @asynccontextmanager
    async def for_request(
        self, tenant_id: int, needs: dict[str, int], key: str | None
    ) -> AsyncIterator[dict[str, int]]:
        """Reserve room for what a request adds. A request that was answered before needs none, even when its tenant is
        at the limit."""
        async with AsyncExitStack() as stack:
            try:
                taken = await stack.enter_async_context(self.taking(tenant_id, needs))
            except QuotaExceeded:
                if key is None or not await self.known(tenant_id, [(IDEMPOTENCY, key)]):
                    raise
                taken = {}
            yield taken

    async def known(self, tenant_id: int, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return await self._intake.known_keys(tenant_id, keys) if keys else frozenset()


class _Limited(Generic[R]):
    def __init__(self, inner: R, room: _Room) -> None:
        self._inner = inner
        self._room = room


class QuotaTenants(_Limited[Tenants]):
    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        try:
            return await self._inner.update_tenant(tenant_id, change)
        finally:
            self._room.forget()  # after an error too: the change may have been committed

    async def change_defaults(self, tenant_id: int, change: Callable[[Defaults], Defaults]) -> Tenant:
        try:
            return await self._inner.change_defaults(tenant_id, change)
        finally:
            self._room.forget()


class QuotaIntake(_Limited[Intake]):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not await self._room.is_limited(tenant_id):
            return await self._inner.submit(tenant_id, jobs)
        try:
            return await self._submit(tenant_id, jobs, _needs(jobs))
        except QuotaExceeded:
            # A repeated request needs no room, and gets its first answer.
            keys = {job.id: keys_of([job]) for job in jobs}
            known = await self._room.known(tenant_id, [key for each in keys.values() for key in each])
            if not known:
                raise
            fresh = [job for job in jobs if known.isdisjoint(keys[job.id])]
        return await self._submit(tenant_id, jobs, _needs(fresh))

    async def _submit(self, tenant_id: int, jobs: Sequence[NewJob], needs: dict[str, int]) -> list[Submitted]:
        async with self._room.taking(tenant_id, needs) as taken:
            answers = await self._inner.submit(tenant_id, jobs)
            taken.update(_needs([job for job, answer in zip(jobs, answers, strict=True) if answer.created]))
        return answers


class QuotaGraphs(_Limited[Graphs]):
    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        needs = {**_needs([node.job for node in graph.nodes]), "graphs": 1}
        needs["idempotency_keys"] += int(graph.idempotency_key is not None)
        async with self._room.for_request(tenant_id, needs, graph.idempotency_key) as taken:
            found = await self._inner.submit_graph(tenant_id, graph)
            if not found.created:
                taken.clear()
        return found


class QuotaControl(_Limited[Control]):
    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._room.for_runs(tenant_id, 1, request):
            return await self._inner.trigger_job(tenant_id, job_id, nonce, request)

    async def backfill_job(
        self, tenant_id: int, job_id: UUID, backfill: Backfill, nonce: bytes, request: KeyedRequest | None = None
    ) -> int:
        async with self._room.for_runs(tenant_id, len(backfill.fires), request):
            return await self._inner.backfill_job(tenant_id, job_id, backfill, nonce, request)


class QuotaReplay(_Limited[Replay]):
    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._room.for_runs(tenant_id, 1, request):
            return await self._inner.retry_run(tenant_id, run_id, nonce, request)

    async def replay_dead_letters(
        self, tenant_id: int, filter: DeadFilter, pace: ReplayPace, nonce: bytes, request: KeyedRequest | None = None
    ) -> Replayed:
        # The new run replaces the dead letter, so only the key needs room.
        async with self._room.for_runs(tenant_id, 0, request):
            return await self._inner.replay_dead_letters(tenant_id, filter, pace, nonce, request)


class QuotaStreams(_Limited[Streams]):
    """A run that lands occupies a row like any other. One in a stream occupies none."""

    async def land(self, runs: Sequence[CarriedRun], how: Landed | UnderClaim) -> frozenset[UUID]:
        needs = {"stored_jobs": len(runs), "stored_bytes": sum(len(run.args) for run in runs)}
        async with self._room.taking(runs[0].lane.tenant_id, needs):  # a caller's runs are its tenant's
            return await self._inner.land(runs, how)


def _needs(jobs: Sequence[NewJob]) -> dict[str, int]:
    return {
        "stored_jobs": len(jobs),
        "stored_bytes": sum(len(job.args) for job in jobs),
        "idempotency_keys": sum((job.idempotency_key is not None) + (job.key is not None) for job in jobs),
    }
