"""A store as the source of a worker's runs: the worker looks at its lanes and claims for itself."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.attempt import Completion, RunNote
from duetime.model.breaker import Breaker, BreakerPolicy, Tally
from duetime.model.dependency import Parent
from duetime.model.worker import Renewal, WorkerInfo
from duetime.store.protocol.store import Completed, Hint, Store
from duetime.worker.claimer import Claimer
from duetime.worker.source import Claims, Wants


class StoreSource:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def embedded(self) -> bool:
        return self._store.embedded

    async def open(self) -> None:
        await self._store.open()

    async def close(self) -> None:
        await self._store.close()

    def companion(self) -> "StoreSource":
        return StoreSource(self._store.companion())

    def listen(self, callback: Callable[[Hint], None]) -> Callable[[], None]:
        return self._store.listen(callback)

    def claimer(self, wants: Wants) -> Claims:
        return Claimer(self._store.claims, wants)

    async def register(self, worker: WorkerInfo, lease: timedelta) -> UUID:
        await self._store.leases.register(worker, lease)
        return worker.id

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> Renewal:
        return await self._store.leases.renew(worker_id, lease, open_claims, answered)

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        return await self._store.leases.cancellations(worker_id)

    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        return await self._store.completions.complete(worker_id, completions, closed_claims)

    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        await self._store.caller_transactions.complete_within(connection, worker_id, run_id, fence, result, logs)

    async def held_in_transactions(self, run_ids: Sequence[UUID]) -> frozenset[UUID]:
        return await self._store.completions.held_in_transactions(run_ids)

    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        return await self._store.claims.release(worker_id, claim_nos)

    async def hand_back(self, worker_id: UUID, runs: Sequence[tuple[UUID, int]]) -> int:
        return await self._store.completions.hand_back(worker_id, runs)

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        return await self._store.leases.unaccounted(worker_id, claim_nos, run_ids)

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        return await self._store.leases.disown(worker_id, run_ids)

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        return await self._store.completions.note(worker_id, notes)

    async def report_attempts(self, tallies: Sequence[Tally], policy: BreakerPolicy) -> list[Breaker]:
        return await self._store.breakers.report_attempts(tallies, policy)

    async def parents(self, worker_id: UUID, run_id: UUID) -> list[Parent]:
        found: list[Parent] = []
        while page := await self._store.graphs.held_parents(worker_id, run_id, found[-1].job_id if found else None):
            found += page
        return found

    async def leave(self, worker_id: UUID) -> None:
        await self._store.leases.leave(worker_id)
