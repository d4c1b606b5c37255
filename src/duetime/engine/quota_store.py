"""A store that applies the quotas of the hot path to callers: to an app beside its store, or to a server.

Rows that a node adds itself (fires, retries, notifications) bypass it.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from typing import Any, cast
from uuid import UUID

from duetime.engine.quota import Quota
from duetime.errors import QuotaExceeded
from duetime.model.attempt import Run
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import NewJob, Submitted
from duetime.model.lists import DeadFilter, Replayed
from duetime.model.tenant import Tenant, TenantChange
from duetime.store.protocol.store import Store
from duetime.store.rules.caller_keys import IDEMPOTENCY, keys_of


class QuotaStore:
    """Callers use `as_store`."""

    def __init__(self, store: Store, quota: Quota) -> None:
        self._store = store
        self._quota = quota

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        try:
            return await self._store.update_tenant(tenant_id, change)
        finally:
            self._quota.forget()  # after an error too: the change may have been committed

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not await self._quota.limits(self._store, tenant_id):
            return await self._store.submit(tenant_id, jobs)
        try:
            return await self._submit(tenant_id, jobs, _needs(jobs))
        except QuotaExceeded:
            # A repeated request needs no room, and gets its first answer.
            keys = {job.id: keys_of([job]) for job in jobs}
            known = await self._known(tenant_id, [key for each in keys.values() for key in each])
            if not known:
                raise
            fresh = [job for job in jobs if known.isdisjoint(keys[job.id])]
        return await self._submit(tenant_id, jobs, _needs(fresh))

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        needs = {**_needs([node.job for node in graph.nodes]), "graphs": 1}
        needs["idempotency_keys"] += int(graph.idempotency_key is not None)
        async with self._room(tenant_id, needs, graph.idempotency_key) as taken:
            found = await self._store.submit_graph(tenant_id, graph)
            if not found.created:
                taken.clear()
        return found

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._room_for_runs(tenant_id, 1, request):
            return await self._store.trigger_job(tenant_id, job_id, nonce, request)

    async def backfill_job(
        self,
        tenant_id: int,
        job_id: UUID,
        fires: Sequence[datetime],
        nonce: bytes,
        rate: float,
        request: KeyedRequest | None = None,
    ) -> int:
        async with self._room_for_runs(tenant_id, len(fires), request):
            return await self._store.backfill_job(tenant_id, job_id, fires, nonce, rate, request)

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._room_for_runs(tenant_id, 1, request):
            return await self._store.retry_run(tenant_id, run_id, nonce, request)

    async def replay_dead_letters(
        self,
        tenant_id: int,
        filter: DeadFilter,
        nonce: bytes,
        limit: int = 1000,
        rate: float = 100.0,
        delay: timedelta = timedelta(0),
        request: KeyedRequest | None = None,
    ) -> Replayed:
        # The new run replaces the dead letter, so only the key needs room.
        async with self._room_for_runs(tenant_id, 0, request):
            return await self._store.replay_dead_letters(tenant_id, filter, nonce, limit, rate, delay, request)

    async def _submit(self, tenant_id: int, jobs: Sequence[NewJob], needs: dict[str, int]) -> list[Submitted]:
        async with self._quota.taking(self._store, tenant_id, needs) as taken:
            answers = await self._store.submit(tenant_id, jobs)
            taken.update(_needs([job for job, answer in zip(jobs, answers, strict=True) if answer.created]))
        return answers

    @asynccontextmanager
    async def _room_for_runs(self, tenant_id: int, count: int, request: KeyedRequest | None) -> AsyncIterator[None]:
        needs = {"stored_jobs": count, "idempotency_keys": int(request is not None)}
        async with self._room(tenant_id, needs, None if request is None else request.key) as taken:
            yield
            if request is not None and request.replayed:
                taken.clear()

    @asynccontextmanager
    async def _room(self, tenant_id: int, needs: dict[str, int], key: str | None) -> AsyncIterator[dict[str, int]]:
        """Reserve room for what a request adds. A request that was answered before needs none, even when its tenant is
        at the limit."""
        async with AsyncExitStack() as stack:
            try:
                taken = await stack.enter_async_context(self._quota.taking(self._store, tenant_id, needs))
            except QuotaExceeded:
                if key is None or not await self._known(tenant_id, [(IDEMPOTENCY, key)]):
                    raise
                taken = {}
            yield taken

    async def _known(self, tenant_id: int, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return await self._store.known_keys(tenant_id, keys) if keys else frozenset()


def _needs(jobs: Sequence[NewJob]) -> dict[str, int]:
    return {
        "stored_jobs": len(jobs),
        "stored_bytes": sum(len(job.args) for job in jobs),
        "idempotency_keys": sum((job.idempotency_key is not None) + (job.key is not None) for job in jobs),
    }
