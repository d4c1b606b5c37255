"""Content of some tenants, encrypted in the store (`store/wrappers/content.py`), and shared secrets, encrypted always.

Callers see plain content. Jobs that were stored before a tenant asked for encryption stay as they are. Encrypted ones
are opened whatever the tenant asks for now, as long as their key is known. Every process that submits, works or serves
needs the keys.

A secret that all nodes share (`secret`) is always sealed: a copy of the database must not be enough to sign. Addresses
that are credentials are sealed where there is a key: of brokers, of subscriptions, and in the arguments of
notifications.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

import msgspec

from duetime.crypto.sealer import Sealer, is_sealed_text
from duetime.errors import SealBroken, reason_of
from duetime.model.attempt import Claimed, Completion, Run, RunNote
from duetime.model.carried import UNREADABLE, CarriedEnd, CarriedRun, StreamQueue, StreamSettings
from duetime.model.dependency import Parent
from duetime.model.edit import Changes
from duetime.model.graph import Graph, NewGraph
from duetime.model.idempotency import KeyedRequest
from duetime.model.job import Job, NewJob, Submitted
from duetime.model.lists import (
    DeadFilter,
    DeadGroups,
    DeadLetter,
    JobReport,
    Page,
    Replayed,
    ReplayPace,
    RunFilter,
    RunItem,
)
from duetime.model.notification import UNREADABLE as NO_ADDRESS
from duetime.model.notification import RunNews, Subscription, address_of, with_address
from duetime.model.tenant import NewTenant, Tenant, TenantChange
from duetime.model.worker import Lost, Seat, Worker, WorkerInfo
from duetime.store.protocol.graphs import Graphs
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.service import JudgeLost, Lists, Notifications, Replay, Tenants
from duetime.store.protocol.store import (
    CallerTransactions,
    Claims,
    Completed,
    Completions,
    Control,
    Intake,
    Leases,
    Reads,
    Store,
)
from duetime.store.protocol.streams import KnownQueues, Streams
from duetime.store.rules.seal_owners import shared_owner, stream_owner, subscription_owner
from duetime.store.wrappers.content import Sealing
from duetime.store.wrappers.overlay import wrapped

log = logging.getLogger("duetime.sealing")

S = TypeVar("S", bound=Store)
R = TypeVar("R")


def sealed(store: S, sealer: Sealer) -> S:
    """This store, with sealed content where a tenant asks for it."""
    sealing = Sealing(store.tenants, store.claims, sealer, alone=store.embedded)
    made = wrapped(
        store,
        sealing,
        tenants=SealedTenants,
        intake=SealedIntake,
        graphs=SealedGraphs,
        control=SealedControl,
        completions=SealedCompletions,
        caller_transactions=SealedCallerTransactions,
        leases=SealedLeases,
        claims=SealedClaims,
        reads=SealedReads,
        replay=SealedReplay,
        lists=SealedLists,
        notifications=SealedNotifications,
        streams=SealedStreams,
    )
    made.sealer = sealer
    return made


class _Sealed(Generic[R]):
    def __init__(self, inner: R, sealing: Sealing) -> None:
        self._inner = inner
        self._sealing = sealing


class SealedTenants(_Sealed[Tenants]):
    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        made = await self._inner.create_tenant(tenant)
        self._sealing.forget()
        return made

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        changed = await self._inner.update_tenant(tenant_id, change)
        self._sealing.forget()
        return changed

    async def secret(self, name: str, fresh: bytes) -> bytes:
        bound = shared_owner(name)
        await self._sealing.sealer.ready()
        kept = await self._inner.secret(name, self._sealing.sealer.seal(fresh, belongs_to=bound))
        await self._sealing.sealer.learn([kept])
        return self._sealing.sealer.open(kept, belongs_to=bound)


class SealedIntake(_Sealed[Intake]):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        return await self._inner.submit(tenant_id, await self._sealing.jobs(tenant_id, jobs))


class SealedGraphs(_Sealed[Graphs]):
    async def submit_graph(self, tenant_id: int, graph: NewGraph) -> Graph:
        jobs = await self._sealing.jobs(tenant_id, [node.job for node in graph.nodes])
        nodes = [msgspec.structs.replace(node, job=job) for node, job in zip(graph.nodes, jobs, strict=True)]
        return await self._inner.submit_graph(tenant_id, msgspec.structs.replace(graph, nodes=tuple(nodes)))

    async def parents(
        self, tenant_id: int, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        return await self._sealing.parents(tenant_id, await self._inner.parents(tenant_id, run_id, after, limit))

    async def held_parents(
        self, worker_id: UUID, run_id: UUID, after: UUID | None = None, limit: int = 100
    ) -> Sequence[Parent]:
        return await self._sealing.held_parents(run_id, await self._inner.held_parents(worker_id, run_id, after, limit))


class SealedControl(_Sealed[Control]):
    async def edit_job(self, tenant_id: int, job_id: UUID, changes: Changes, version: int | None = None) -> Job:
        changes = await self._sealing.changes(tenant_id, changes)
        return await self._sealing.job(await self._inner.edit_job(tenant_id, job_id, changes, version))

    async def cancel_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await self._inner.cancel_job(tenant_id, job_id))

    async def pause_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await self._inner.pause_job(tenant_id, job_id))

    async def resume_job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await self._inner.resume_job(tenant_id, job_id))

    async def trigger_job(self, tenant_id: int, job_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._sealing.run(await self._inner.trigger_job(tenant_id, job_id, nonce, request))

    async def cancel_run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sealing.run(await self._inner.cancel_run(tenant_id, run_id))


class SealedCompletions(_Sealed[Completions]):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        completions = await self._sealing.completions(worker_id, completions)
        return await self._inner.complete(worker_id, completions, closed_claims)

    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        sealed = [(worker, await self._sealing.completions(worker, items), nos) for worker, items, nos in reports]
        return await self._inner.complete_many(sealed)

    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        seal = await self._sealing.judged(run_id)

        def judge_sealed(found: Sequence[Lost]) -> Sequence[Completion]:
            return [seal(item) for item in judge(found)]

        return await self._inner.finish(run_id, fence, judge_sealed)

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        return await self._inner.note(worker_id, await self._sealing.notes(worker_id, notes))


class SealedCallerTransactions(_Sealed[CallerTransactions]):
    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        result, logs = await self._sealing.outcome_within(worker_id, run_id, result, logs)
        await self._inner.complete_within(connection, worker_id, run_id, fence, result, logs)


class SealedLeases(_Sealed[Leases]):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        self._sealing.know_worker(worker.id, worker.tenant_id)
        await self._sealing.look()
        return await self._inner.register(worker, lease)

    async def worker(self, worker_id: UUID) -> Worker:
        found = await self._inner.worker(worker_id)
        self._sealing.know_worker(worker_id, found.tenant_id)
        return found

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        return await self._sealing.claimed(await self._inner.held_runs(worker_id, run_ids))


class SealedClaims(_Sealed[Claims]):
    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        return await self._sealing.claimed(await self._inner.claim(worker_id, claim_no, takes))

    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        return await self._sealing.claimed(await self._inner.claim_announced(worker_id, claim_no, announced))

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        return await self._sealing.dealt(await self._inner.claim_many(seats, takes))


class SealedReads(_Sealed[Reads]):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self._sealing.job(await self._inner.job(tenant_id, job_id))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self._sealing.run(await self._inner.run(tenant_id, run_id))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        return await self._sealing.runs(await self._inner.runs_of_job(tenant_id, job_id, limit))


class SealedReplay(_Sealed[Replay]):
    async def retry_run(self, tenant_id: int, run_id: UUID, nonce: bytes, request: KeyedRequest | None = None) -> Run:
        return await self._sealing.run(await self._inner.retry_run(tenant_id, run_id, nonce, request))

    async def replay_dead_letters(
        self, tenant_id: int, filter: DeadFilter, pace: ReplayPace, nonce: bytes, request: KeyedRequest | None = None
    ) -> Replayed:
        await self._sealing.check_filter(tenant_id, filter)
        return await self._inner.replay_dead_letters(tenant_id, filter, pace, nonce, request)

    async def discard_dead_letters(self, tenant_id: int, filter: DeadFilter, limit: int = 1000) -> int:
        await self._sealing.check_filter(tenant_id, filter)
        return await self._inner.discard_dead_letters(tenant_id, filter, limit)


class SealedLists(_Sealed[Lists]):
    async def list_runs(
        self, tenant_id: int, filter: RunFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[RunItem]:
        page = await self._inner.list_runs(tenant_id, filter, before, limit)
        return Page(tuple(await self._sealing.errors(tenant_id, page.items)), page.next)

    async def list_dead_letters(
        self, tenant_id: int, filter: DeadFilter, before: UUID | None = None, limit: int = 50
    ) -> Page[DeadLetter]:
        await self._sealing.check_filter(tenant_id, filter)
        page = await self._inner.list_dead_letters(tenant_id, filter, before, limit)
        return Page(tuple(await self._sealing.errors(tenant_id, page.items)), page.next)

    async def group_dead_letters(self, tenant_id: int, limit: int = 50, most: int = 100_000) -> DeadGroups:
        found = await self._inner.group_dead_letters(tenant_id, limit, most)
        return msgspec.structs.replace(found, groups=tuple(await self._sealing.errors(tenant_id, found.groups)))

    async def job_status(self, tenant_id: int, job_id: UUID) -> JobReport:
        found = await self._inner.job_status(tenant_id, job_id)
        if found.last_run is None:
            return found
        whole = msgspec.structs.replace(found.last_run, error=found.failure_reason)
        last, reason = await self._sealing.errors(tenant_id, [found.last_run, whole])
        return msgspec.structs.replace(found, last_run=last, failure_reason=reason.error)


class SealedNotifications(_Sealed[Notifications]):
    def __init__(self, inner: Notifications, sealing: Sealing) -> None:
        super().__init__(inner, sealing)
        self._reported: set[tuple[int, str]] = set()
        """Subscriptions that were reported as unreadable: they are read twice a second."""

    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        sealer = self._sealing.sealer
        if sealer.has_key:
            await sealer.ready()
            owner = subscription_owner(tenant_id, subscription.name)
            subscription = _sent_to(subscription, sealer.seal_text(address_of(subscription.to), belongs_to=owner))
        await self._inner.put_subscription(tenant_id, subscription)

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        found = await self._inner.subscriptions(tenant_id)
        await self._sealing.sealer.learn(address_of(each.to) for _, each in found)
        return [(of, self._opened(of, each)) for of, each in found]

    def _opened(self, tenant_id: int, found: Subscription) -> Subscription:
        """An address that cannot be opened here concerns its subscription only."""
        address, owner = address_of(found.to), subscription_owner(tenant_id, found.name)
        if not is_sealed_text(address):
            return found
        try:
            return _sent_to(found, self._sealing.sealer.open_text(address, belongs_to=owner))
        except SealBroken as error:
            if (tenant_id, found.name) not in self._reported:
                self._reported.add((tenant_id, found.name))
                log.error("the address of the %s cannot be opened, nothing is sent: %s", owner, reason_of(error))
            return _sent_to(found, NO_ADDRESS)

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        found = await self._inner.news_of_runs(tenant_id, run_ids, started=started, ended=ended)
        return await self._sealing.errors(tenant_id, found)


def _sent_to(subscription: Subscription, address: str) -> Subscription:
    return msgspec.structs.replace(subscription, to=with_address(subscription.to, address))


class SealedStreams(_Sealed[Streams]):
    async def stream_queues(self, tenant_id: int | None = None) -> list[StreamQueue]:
        return await self._all_opened(await self._inner.stream_queues(tenant_id))

    async def known_queues(self, within: float) -> KnownQueues:
        known = await self._inner.known_queues(within)
        return KnownQueues(await self._all_opened(known.queues), known.read_at)

    async def set_stream(self, tenant_id: int, queue: str, settings: StreamSettings | None) -> StreamQueue | None:
        if settings is not None and self._sealing.sealer.has_key:
            await self._sealing.sealer.ready()
            address = await self._same(tenant_id, queue, settings.address)
            if address is None:
                address = self._sealing.sealer.seal_text(settings.address, belongs_to=stream_owner(tenant_id, queue))
            settings = msgspec.structs.replace(settings, address=address)
        found = await self._inner.set_stream(tenant_id, queue, settings)
        return None if found is None else self._opened(found)

    async def carry(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[CarriedRun]:
        return await self._inner.carry(tenant_id, await self._sealing.jobs(tenant_id, jobs))

    async def end_carried(self, worker_id: UUID, ended: Sequence[CarriedEnd]) -> frozenset[UUID]:
        return await self._inner.end_carried(worker_id, await self._sealing.carried_ends(ended))

    async def assign(self, seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        return await self._sealing.dealt(await self._inner.assign(seats, runs))

    async def _same(self, tenant_id: int, queue: str, address: str) -> str | None:
        """The stored form of this address, if it is the current one: the same text seals differently each time, and
        another text begins a new generation."""
        for each in await self._inner.stream_queues(tenant_id):
            if each.queue == queue and each.current:
                await self._sealing.sealer.learn([each.settings.address])
                if self._opened(each).settings.address == address:
                    return each.settings.address
        return None

    async def _all_opened(self, found: Sequence[StreamQueue]) -> list[StreamQueue]:
        await self._sealing.sealer.learn(each.settings.address for each in found)
        return [self._opened(each) for each in found]

    def _opened(self, found: StreamQueue) -> StreamQueue:
        """An address that cannot be opened here concerns its queue only: all others go on."""
        address = found.settings.address
        if not is_sealed_text(address):
            return found
        try:
            opened = self._sealing.sealer.open_text(address, belongs_to=stream_owner(found.tenant_id, found.queue))
        except SealBroken:
            opened = UNREADABLE
        return msgspec.structs.replace(found, settings=msgspec.structs.replace(found.settings, address=opened))
