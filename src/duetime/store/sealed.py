"""Stores that keep the arguments of some tenants encrypted.

What a tenant that asks for it (`encrypt_args`) submits is sealed on its way in, and opened wherever arguments leave
the store: for workers and for readers. Everybody above sees plain arguments. The seal is bound to the tenant. Jobs that
were stored before stay as they are; sealed ones are opened whatever the tenant asks for now, as long as their key is
known. Every process that submits, works or serves needs the keys.

Arguments that cannot be opened are missing, and nothing else is: what they belong to is handed out with the reason
(`args_problem`), so that one row takes no other with it, and whoever has no use for them does without.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

import msgspec
from msgspec import UnsetType

from duetime.clock import monotonic
from duetime.errors import SealBroken
from duetime.model.attempt import Claimed, Run
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import INTERNAL_TENANT, Job, NewJob, Submitted
from duetime.model.worker import Seat
from duetime.sealing import Sealer, is_sealed
from duetime.store.protocol import Store

R = TypeVar("R", Job, Run)
T = TypeVar("T", Job, Run, Claimed)

_REMEMBERED = 3.0
"""Seconds for which a tenant is not asked again whether it wants encryption."""


class _Sealing:
    """What both stores do with arguments on their way in and out."""

    def __init__(self, store: Store, sealer: Sealer) -> None:
        self._store = store
        self._sealer = sealer
        self._wishes: dict[int, tuple[float, bool]] = {}
        self._tenants: dict[int, int] = {}
        """The tenant of each lane."""

    async def sealed(self, tenant_id: int, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
        if not jobs or tenant_id == INTERNAL_TENANT or not await self._wants(tenant_id):
            return jobs
        owner = _owner(tenant_id)
        return [msgspec.structs.replace(job, args=self._sealer.seal(job.args, belongs_to=owner)) for job in jobs]

    async def sealed_changes(self, tenant_id: int, changes: Changes) -> Changes:
        if isinstance(changes.args, UnsetType) or not await self._wants(tenant_id):
            return changes
        args = self._sealer.seal(changes.args, belongs_to=_owner(tenant_id))
        return msgspec.structs.replace(changes, args=args)

    def opened(self, thing: R) -> R:
        return self._open(thing, thing.tenant_id) if is_sealed(thing.args) else thing

    async def claimed(self, runs: list[Claimed]) -> list[Claimed]:
        if not any(is_sealed(run.args) for run in runs):
            return runs  # as nearly always: nothing is made anew for them
        return [await self._claimed(run) if is_sealed(run.args) else run for run in runs]

    async def _claimed(self, run: Claimed) -> Claimed:
        if run.lane_id not in self._tenants:
            self._tenants = {lane.id: lane.key.tenant_id for lane in await self._store.lanes()}
        opened = self._open(run, self._tenants[run.lane_id])
        if opened.args_problem is None or self._sealer.knows_key_of(run.args):
            return opened
        return msgspec.structs.replace(opened, key_unknown=True)

    def _open(self, thing: T, tenant_id: int) -> T:
        try:
            args = self._sealer.open(thing.args, belongs_to=_owner(tenant_id))
        except SealBroken as error:
            return msgspec.structs.replace(thing, args_problem=str(error))
        return msgspec.structs.replace(thing, args=args)

    async def _wants(self, tenant_id: int) -> bool:
        """Raises `Conflict` where they shall be encrypted and cannot: nothing is stored as it is."""
        asked_at, wish = self._wishes.get(tenant_id, (None, False))
        if asked_at is None or monotonic() - asked_at > _REMEMBERED:
            wish = (await self._store.tenant_by_id(tenant_id)).encrypt_args
            self._wishes[tenant_id] = monotonic(), wish
        if wish:
            self._sealer.check()
        return wish


if TYPE_CHECKING:
    # Either store: what stands behind `super()` is the one that it is mixed into.
    from duetime.store.postgres import PostgresStore as _Plain
else:
    _Plain = object


class SealedArguments(_Plain):
    """Every way on which arguments come into a store or leave it."""

    def __init__(self, sealer: Sealer, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._sealing = _Sealing(self, sealer)

    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        return await super().submit(tenant_id, await self._sealing.sealed(tenant_id, jobs))

    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        jobs = await self._sealing.sealed(tenant_id, [node.job for node in graph.nodes])
        nodes = [msgspec.structs.replace(node, job=job) for node, job in zip(graph.nodes, jobs, strict=True)]
        return await super().submit_graph(tenant_id, msgspec.structs.replace(graph, nodes=tuple(nodes)))

    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        changes = await self._sealing.sealed_changes(tenant_id, changes)
        return self._sealing.opened(await super().edit_job(tenant_id, job_id, changes, version))

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        return await self._sealing.claimed(await super().claim(worker_id, claim_no, takes))

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        dealt = await super().claim_many(seats, takes)
        return {worker_id: await self._sealing.claimed(runs) for worker_id, runs in dealt.items()}

    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return self._sealing.opened(await super().job(tenant_id, job_id))

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        return self._sealing.opened(await super().cancel_job(tenant_id, job_id))

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        return self._sealing.opened(await super().pause_job(tenant_id, job_id))

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        return self._sealing.opened(await super().resume_job(tenant_id, job_id))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return self._sealing.opened(await super().run(tenant_id, run_id))

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return self._sealing.opened(await super().cancel_run(tenant_id, run_id))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return self._sealing.opened(await super().trigger_job(tenant_id, job_id, nonce, request))

    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return self._sealing.opened(await super().retry_run(tenant_id, run_id, nonce, request))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        return [self._sealing.opened(run) for run in await super().runs_of_job(tenant_id, job_id, limit)]


def _owner(tenant_id: int) -> str:
    return f"arguments of tenant {tenant_id}"
