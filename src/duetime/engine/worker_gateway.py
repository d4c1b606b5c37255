"""The worker gateway: remote workers register, wait for runs and report results here.

A worker that speaks HTTP gets the same as one with a database connection: a lease, numbered claims, fences. Its session
belongs to the key that opened it and has its own token. For any other key, and without the token, the worker does not
exist (`session`). The gateway keeps no state that matters: any server on the same store can take over.
"""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from hmac import compare_digest
from uuid import UUID

from duetime.clock import monotonic
from duetime.engine.dealer import Dealer
from duetime.engine.heartbeat_batcher import HeartbeatBatcher
from duetime.engine.report_batcher import Reports
from duetime.engine.wait_queue import Capabilities, ClaimAnswer, WaitingClaim
from duetime.errors import InvalidInput, LeaseLost, NotFound
from duetime.ids import show
from duetime.model.attempt import Completion, RunNote
from duetime.model.breaker import DEFAULT_BREAKERS, BreakerPolicy
from duetime.model.completion import complete
from duetime.model.dependency import Parent
from duetime.model.outcome import Outcome, Succeeded
from duetime.model.run import Event
from duetime.model.structs import struct_like
from duetime.model.target_health import Health, Target, target_of
from duetime.model.worker import Renewal, Worker, WorkerInfo
from duetime.process.loop import Loop
from duetime.store.protocol.store import Completed, Hint, Store
from duetime.store.shared.health_reporter import Reporter

_FORGET_AFTER = 600.0
_FORGET_EVERY = 60.0
_MOST_TARGETS = 100_000

_ENDED: dict[Event, Outcome] = {Event.SUCCEED: Succeeded()}

Reported = tuple[UUID, int, Outcome, bytes | None]
"""A run, its fence, the outcome of the attempt, and its log."""


class WorkerGateway:
    def __init__(
        self, store: Store, *, poll: timedelta, strict: bool = False, breakers: BreakerPolicy = DEFAULT_BREAKERS
    ) -> None:
        self._store = store
        self._health = Health(breakers)
        self._targets: dict[UUID, tuple[Target, int]] = {}
        """The target and the attempt number of the runs that were claimed here."""
        self.dealer = Dealer(store, poll, strict=strict)
        self._heartbeats = HeartbeatBatcher(store)
        self._reports = Reports(store)
        self._workers: dict[UUID, Worker] = {}
        self._seen: dict[UUID, float] = {}
        self._claims: dict[UUID, int] = {}
        """The highest claim number of each worker: a claim that is not above it may have been answered before."""
        reporter = Reporter(store.breakers.report_attempts, self._health, breakers)
        self.loops = (self.dealer.loop, Loop("worker gateway", self._drop_idle), reporter.loop)

    def hint(self, hint: Hint) -> None:
        self.dealer.hint(hint)

    def close(self) -> None:
        """Answer all waiting workers now."""
        self.dealer.close()

    async def register(self, worker: WorkerInfo, lease: timedelta) -> Worker:
        assert worker.tenant_id is not None
        lease_until = await self._store.leases.register(worker, lease)
        now = lease_until - lease
        known = struct_like(Worker, worker, started_at=now, lease_until=lease_until, heard_at=now, consumes=())
        self._cache(known)
        self._claims[worker.id] = 0
        return known

    async def session(self, tenant_id: int, worker_id: UUID, key_id: UUID | None, token_hash: bytes) -> Worker:
        """The worker, for the key that opened its session together with the session's token. Raises `NotFound` if any
        of them is wrong: an id alone reveals and permits nothing."""
        known = self._workers.get(worker_id)
        if known is None:
            known = await self._store.leases.worker(worker_id)
            if known.tenant_id == tenant_id:
                self._cache(known)
        knows_token = known.token_hash is not None and compare_digest(known.token_hash, token_hash)
        if known.tenant_id != tenant_id or known.key_id != key_id or not knows_token:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        self._seen[worker_id] = monotonic()
        return known

    async def claim(
        self,
        worker: Worker,
        tasks: Sequence[str] | None,
        waiting: WaitingClaim,
        wait: float,
        gone: asyncio.Future[None],
    ) -> ClaimAnswer:
        """Wait for runs for a worker, or for a request to cancel some of its runs."""
        worker_id = worker.id
        if waiting.claim_no:
            if not waiting.room:
                return await self._abandoned_claim(worker_id, waiting.claim_no)
            if waiting.claim_no <= self._claims.get(worker_id, waiting.claim_no):
                before = await self._earlier_claim(worker_id, waiting.claim_no)
                if before.runs:
                    return before
                waiting.unanswered = True  # the earlier claim may still be in progress
            self._claims[worker_id] = max(waiting.claim_no, self._claims.get(worker_id, 0))
        elif asked := await self._store.leases.cancellations(worker_id):
            return ClaimAnswer([], asked)
        chosen = frozenset(worker.tasks)
        if tasks is not None:
            if unknown := sorted(set(tasks) - chosen):
                raise InvalidInput(
                    f"the worker did not register {unknown[0]!r}", field="tasks", remedy="register with it first"
                )
            chosen = frozenset(tasks)
        assert worker.tenant_id is not None
        capabilities = Capabilities(worker.tenant_id, chosen, frozenset(worker.queues))
        answer = await self.dealer.wait(capabilities, waiting, wait, gone)
        for lane, run in answer.runs:
            self._targets[run.run_id] = (target_of(lane, run.options), run.attempt)
        return answer

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int = 0) -> Renewal:
        try:
            return await self._heartbeats.renew(worker_id, lease, open_claims, answered)
        except LeaseLost:
            self._drop_worker(worker_id)
            self.dealer.refuse_worker(worker_id)
            raise

    async def complete(
        self, worker_id: UUID, ended: Sequence[Completion], judged: Sequence[Reported], closed: Sequence[int]
    ) -> Completed:
        """Take reports: those that need no decision, and those that the job's retry policy judges."""
        completions = [self._counted(item.run_id, _ENDED.get(item.verdict.event), item) for item in ended]
        unknown: list[UUID] = []
        if judged:
            held = {
                run.run_id: run for run in await self._store.leases.held_runs(worker_id, [item[0] for item in judged])
            }
            for run_id, fence, outcome, logs in judged:
                run = held.get(run_id)
                if run is None or run.fence != fence:
                    unknown.append(run_id)
                else:
                    completions.append(self._counted(run_id, outcome, complete(run, outcome, logs)))
        refused: frozenset[UUID] = frozenset(unknown)
        if completions or closed:
            refused |= (await self._reports.complete(worker_id, completions, closed)).refused
        return Completed(refused)

    def _counted(self, run_id: UUID, outcome: Outcome | None, completion: Completion) -> Completion:
        """Count the outcome for the target's health, if the target is known."""
        target, attempt = self._targets.pop(run_id, (None, 0))
        if target is None or outcome is None:
            return completion
        return self._health.weigh(target, attempt, outcome, completion)

    async def note(self, worker_id: UUID, notes: Sequence[RunNote]) -> Completed:
        return await self._store.completions.note(worker_id, notes)

    async def parents(self, worker_id: UUID, run_id: UUID, after: UUID | None) -> Sequence[Parent]:
        """The parents of a run that the worker holds, a page at a time."""
        return await self._store.graphs.held_parents(worker_id, run_id, after)

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        """The runs that the store has under a worker's claims and that the worker does not hold."""
        return await self._store.leases.unaccounted(worker_id, claim_nos, run_ids)

    async def hand_back(
        self,
        worker_id: UUID,
        runs: Sequence[tuple[UUID, int]],
        claim_nos: Sequence[int] = (),
        not_held: Sequence[UUID] = (),
    ) -> int:
        """Release these runs, everything claimed under numbers whose answer was lost, and the runs that the worker does
        not hold although the store says so."""
        released = await self._store.claims.release(worker_id, claim_nos)
        if not_held:
            released += await self._store.leases.disown(worker_id, not_held)
        return released + await self._store.completions.hand_back(worker_id, runs)

    async def leave(self, worker_id: UUID) -> None:
        await self._store.leases.leave(worker_id)
        self._drop_worker(worker_id)
        self.dealer.refuse_worker(worker_id)

    async def _abandoned_claim(self, worker_id: UUID, claim_no: int) -> ClaimAnswer:
        """Whether a claim that the worker gave up has taken runs."""
        if await self.dealer.withdraw(worker_id, claim_no):
            return ClaimAnswer([])
        return await self._earlier_claim(worker_id, claim_no)

    async def _earlier_claim(self, worker_id: UUID, claim_no: int) -> ClaimAnswer:
        """The runs of an earlier claim whose answer was lost."""
        return ClaimAnswer(await self.dealer.begin(worker_id, await self._store.claims.claim(worker_id, claim_no, [])))

    def _cache(self, worker: Worker) -> None:
        self._workers[worker.id] = worker
        self._seen[worker.id] = monotonic()

    def _drop_worker(self, worker_id: UUID) -> None:
        for book in (self._workers, self._seen, self._claims):
            book.pop(worker_id, None)

    async def _drop_idle(self) -> float:
        """Drop idle workers from the cache; they are read from the store when they come back."""
        before = monotonic() - _FORGET_AFTER
        if len(self._targets) > _MOST_TARGETS:
            self._targets.clear()  # their workers never came back; an uncounted outcome opens no breaker
        for worker_id in [worker_id for worker_id, seen in self._seen.items() if seen < before]:
            self._drop_worker(worker_id)
        return _FORGET_EVERY
