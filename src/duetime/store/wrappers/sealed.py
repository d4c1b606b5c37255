"""Stores that keep content of some tenants encrypted (`store/wrappers/content.py`), and what signs encrypted always.

Everybody above sees plain content. Jobs that were stored before a tenant asked for encryption stay as they are; sealed
ones are opened whatever the tenant asks for now, as long as their key is known. Every process that submits, works or
serves needs the keys.

A secret that all nodes share (`secret`) is always sealed: a copy of the database must not be enough to sign.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

import msgspec

from duetime.crypto.sealer import Sealer
from duetime.errors import InvalidInput
from duetime.model.attempt import Claimed, Completion, Run, RunNote
from duetime.model.dependency import Parent
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.lists import DeadFilter, DeadGroups, DeadLetter, JobReport, Page, Replayed, RunFilter, RunItem
from duetime.model.notification import RunNews
from duetime.model.tenant import NewTenant, Tenant, TenantChange
from duetime.model.worker import Lost, Seat, Worker, WorkerInfo
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.service import JudgeLost
from duetime.store.protocol.store import Completed
from duetime.store.wrappers.content import Sealing, is_content_sealed
from duetime.store.wrappers.seal_owners import shared_owner

if TYPE_CHECKING:
    # Either store: what stands behind `super()` is the one that it is mixed into.
    from duetime.store.postgres import PostgresStore as _Plain
else:
    _Plain = object


class SealedContent(_Plain):
    """Every way on which content comes into a store or leaves it."""

    def __init__(self, sealer: Sealer, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.sealer = sealer
        self._sealing = Sealing(self, sealer)

    async def secret(self, name: str, fresh: bytes) -> bytes:
        bound = shared_owner(name)
        await self.sealer.ready()
        kept = await super().secret(name, self.sealer.seal(fresh, belongs_to=bound))
        await self.sealer.learn([kept])
        return self.sealer.open(kept, belongs_to=bound)

    # In.

    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        made = await super().create_tenant(tenant)
        self._sealing.forget()
        return made

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        changed = await super().update_tenant(tenant_id, change)
        self._sealing.forget()
        return changed

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        return await super().submit(tenant_id, await self._sealing.jobs(tenant_id, jobs))

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        jobs = await self._sealing.jobs(tenant_id, [node.job for node in graph.nodes])
        nodes = [msgspec.structs.replace(node, job=job) for node, job in zip(graph.nodes, jobs, strict=True)]
        return await super().submit_graph(tenant_id, msgspec.structs.replace(graph, nodes=tuple(nodes)))

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        changes = await self._sealing.changes(tenant_id, changes)
        return await self._sealing.job(await super().edit_job(tenant_id, job_id, changes, version))

    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        return await super().complete(worker_id, await self._sealing.completions(worker_id, completions), closed_claims)

    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        sealed = [(worker, await self._sealing.completions(worker, items), nos) for worker, items, nos in reports]
        return await super().complete_many(sealed)

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        result, logs = await self._sealing.outcome_within(worker_id, run_id, result, logs)
        await super().complete_within(connection, worker_id, run_id, fence, result, logs)

    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        seal = await self._sealing.judged(run_id)

        def judge_sealed(found: Sequence[Lost]) -> Sequence[Completion]:
            return [seal(item) for item in judge(found)]

        return await super().finish(run_id, fence, judge_sealed)

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        return await super().note(worker_id, await self._sealing.notes(worker_id, notes))

    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        self._sealing.know_worker(worker.id, worker.tenant_id)
        return await super().register(worker, lease)

    async def worker(self, worker_id: UUID) -> Worker:
        found = await super().worker(worker_id)
        self._sealing.know_worker(worker_id, found.tenant_id)
        return found

    # Out.

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        return await self._sealing.claimed(await super().claim(worker_id, claim_no, takes))

    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        return await self._sealing.claimed(await super().claim_announced(worker_id, claim_no, announced))

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        dealt = await super().claim_many(seats, takes)
        return {worker_id: await self._sealing.claimed(runs) for worker_id, runs in dealt.items()}

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        return await self._sealing.claimed(await super().held_runs(worker_id, run_ids))

    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await super().job(tenant_id, job_id))

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await super().cancel_job(tenant_id, job_id))

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await super().pause_job(tenant_id, job_id))

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await super().resume_job(tenant_id, job_id))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sealing.run(await super().run(tenant_id, run_id))

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sealing.run(await super().cancel_run(tenant_id, run_id))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._sealing.run(await super().trigger_job(tenant_id, job_id, nonce, request))

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._sealing.run(await super().retry_run(tenant_id, run_id, nonce, request))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        return await self._sealing.runs(await super().runs_of_job(tenant_id, job_id, limit))

    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        page = await super().list_runs(tenant_id, filter, before, limit)
        return Page(tuple(await self._sealing.errors(tenant_id, page.items)), page.next)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        await self._check_filter(tenant_id, filter)
        page = await super().list_dead_letters(tenant_id, filter, before, limit)
        return Page(tuple(await self._sealing.errors(tenant_id, page.items)), page.next)

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        found = await super().group_dead_letters(tenant_id, limit, most)
        return msgspec.structs.replace(found, groups=tuple(await self._sealing.errors(tenant_id, found.groups)))

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
        await self._check_filter(tenant_id, filter)
        return await super().replay_dead_letters(tenant_id, filter, nonce, limit, rate, delay, request)

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        await self._check_filter(tenant_id, filter)
        return await super().discard_dead_letters(tenant_id, filter, limit)

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        found = await super().job_status(tenant_id, job_id)
        if found.last_run is None:
            return found
        whole = msgspec.structs.replace(found.last_run, error=found.failure_reason)
        last, reason = await self._sealing.errors(tenant_id, [found.last_run, whole])
        return msgspec.structs.replace(found, last_run=last, failure_reason=reason.error)

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        found = await super().news_of_runs(tenant_id, run_ids, started=started, ended=ended)
        return await self._sealing.errors(tenant_id, found)

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        return await self._sealing.parents(tenant_id, await super().parents(tenant_id, run_id, after, limit))

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        found = await super().held_parents(worker_id, run_id, after, limit)
        if not any(is_content_sealed(part) for each in found for part in (each.result, each.error)):
            return found
        tenants = await self.tenants_of_runs([run_id])
        return await self._sealing.parents(tenants[run_id], found) if run_id in tenants else found

    async def _check_filter(self, tenant_id: int, filter: DeadFilter) -> None:
        if filter.error is not None and await self._sealing.encrypts(tenant_id):
            raise InvalidInput(
                "the errors of this tenant are encrypted: the database cannot search in them",
                field="error",
                remedy="filter by fingerprint, failure, task or queue",
            )
