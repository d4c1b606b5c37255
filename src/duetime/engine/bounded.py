"""A store that holds callers to the quotas of what is stored on the hot path: an app beside its store, or a server.

What a node adds by itself (fires, retries, notifications) goes past it.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast
from uuid import UUID

from duetime.engine.quota import Quota
from duetime.model.attempt import Run
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import NewJob, Submitted
from duetime.model.tenant import Tenant, TenantChange
from duetime.store.protocol import Store


class BoundedStore:
    """`as_store` is what everybody else sees of it."""

    def __init__(self, store: Store, quota: Quota) -> None:
        self._store = store
        self._quota = quota

    @property
    def as_store(self) -> Store:
        return cast(Store, self)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        changed = await self._store.update_tenant(tenant_id, change)
        self._quota.forget()
        return changed

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        if not await self._quota.limits(self._store, tenant_id):
            return await self._store.submit(tenant_id, jobs)
        async with self._quota.taking(self._store, tenant_id, _needs(jobs)) as taken:
            answers = await self._store.submit(tenant_id, jobs)
            taken.update(_needs([job for job, answer in zip(jobs, answers, strict=True) if answer.created]))
        return answers

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        needs = {**_needs([node.job for node in graph.nodes]), "graphs": 1}
        needs["idempotency_keys"] += int(graph.idempotency_key is not None)
        async with self._quota.taking(self._store, tenant_id, needs) as taken:
            found = await self._store.submit_graph(tenant_id, graph)
            if not found.created:
                taken.clear()
        return found

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._quota.taking(self._store, tenant_id, _runs(1, request)):
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
        async with self._quota.taking(self._store, tenant_id, _runs(len(fires), request)) as taken:
            made = await self._store.backfill_job(tenant_id, job_id, fires, nonce, rate, request)
            taken["stored_jobs"] = made
        return made

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        async with self._quota.taking(self._store, tenant_id, _runs(1, request)):
            return await self._store.retry_run(tenant_id, run_id, nonce, request)


def _needs(jobs: Sequence[NewJob]) -> dict[str, int]:
    return {
        "stored_jobs": len(jobs),
        "stored_bytes": sum(len(job.args) for job in jobs),
        "idempotency_keys": sum((job.idempotency_key is not None) + (job.key is not None) for job in jobs),
    }


def _runs(count: int, request: KeyedRequest | None) -> Mapping[str, int]:
    return {"stored_jobs": count, "idempotency_keys": int(request is not None)}
