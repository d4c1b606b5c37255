"""What contract tests are made of: jobs with a default for everything, and a worker that one moves by hand."""

from collections.abc import Sequence
from datetime import timedelta
from hashlib import blake2b
from random import Random
from typing import Any
from uuid import UUID

from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import FailureClass
from duetime.model.firing import Decided, DueJob, plan_fire
from duetime.model.job import NewJob, Submitted, decode_options, lane_of
from duetime.model.lane import Tier
from duetime.model.retry import Verdict, decide_lost
from duetime.model.run import Event
from duetime.model.schedule import NOW, Schedule, encode_schedule
from duetime.model.worker import Lost, WorkerInfo
from duetime.store.protocol.store import Completed, PlanFires, Scan, Store

TENANT, STRANGER = 1, 2
LEASE = timedelta(seconds=30)
SUCCEED = Verdict(Event.SUCCEED)
FAIL = Verdict(Event.FAIL)
GRACE = timedelta(seconds=5)


def job(
    schedule: Schedule = NOW,
    *,
    tenant_id: int = TENANT,
    task: str = "greet",
    queue: str = "default",
    tier: Tier = Tier.MEDIUM,
    args: bytes = b"{}",
    options: bytes | None = None,
    timeout_ms: int | None = None,
    key: str | None = None,
    idempotency_key: str | None = None,
) -> NewJob:
    """A job; its fingerprint says what was asked for, as intake does."""
    asked = b"|".join((task.encode(), queue.encode(), bytes([tier]), args, encode_schedule(schedule)))
    return NewJob(
        new_id(),
        lane_of(tenant_id, queue, tier, task, options),
        schedule,
        args,
        options,
        timeout_ms,
        key,
        idempotency_key,
        blake2b(asked, digest_size=16).digest(),
    )


async def submit(store: Store, *jobs: NewJob, tenant_id: int = TENANT) -> Submitted:
    """Submit jobs together; returns the answer to the last."""
    return (await store.intake.submit(tenant_id, jobs))[-1]


def plan(due: Sequence[DueJob], now: Any) -> list[Decided]:
    return [plan_fire(item, now) for item in due]


async def fire(store: Store, limit: int = 1000, planned: PlanFires = plan) -> Scan:
    return await store.firing.fire_due(limit, planned)


def judge(lost: Sequence[Lost]) -> list[Completion]:
    """What the reaper decides: a timed-out run failed, any other was lost and is tried again while it may be."""
    return [judge_one(item) for item in lost]


def judge_one(item: Lost) -> Completion:
    options = decode_options(item.options)
    if item.timed_out:
        spent = item.attempt > options.retry.retries
        verdict = FAIL if spent else Verdict(Event.RETRY, options.retry.backoff(item.attempt, Random(7)))
        return Completion(
            item.run_id, item.fence, verdict, AttemptState.FAILED, FailureClass.TIMEOUT, "it ran too long"
        )
    verdict = decide_lost(options.retry, item.lost + 1, at_most_once=options.at_most_once)
    return Completion(item.run_id, item.fence, verdict, AttemptState.LOST, FailureClass.LOST, "its worker is gone")


async def reap(store: Store, limit: int = 100) -> int:
    return await store.reaping.reap(limit, judge, GRACE)


class Hand:
    """A worker that does nothing by itself."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.id: UUID = new_id()
        self.claim_no = 0

    async def register(self, lease: timedelta = LEASE) -> "Hand":
        info = WorkerInfo(self.id, "hand", ("greet", "count"), ("default",), 10)
        await self.store.leases.register(info, lease)
        return self

    async def claim(self, take: int = 100) -> list[Claimed]:
        """Claim from every lane under a new number, earliest first."""
        self.claim_no += 1
        return await self.claim_again(take)

    async def claim_again(self, take: int = 100) -> list[Claimed]:
        lanes = await self.store.claims.lanes()
        found = await self.store.claims.claim(self.id, self.claim_no, [(lane.id, take) for lane in lanes])
        return sorted(found, key=lambda run: (run.ready_at, run.run_id))

    async def claim_one(self) -> Claimed:
        """The only run that is ready."""
        (found,) = await self.claim()
        return found

    async def complete(self, *completions: Completion, closed: Sequence[int] = ()) -> Completed:
        return await self.store.completions.complete(self.id, completions, closed)

    async def succeed(self, *runs: Claimed, result: bytes | None = None) -> Completed:
        return await self.complete(*(succeeded(run, result=result) for run in runs))

    async def fail(self, run: Claimed) -> Completed:
        return await self.complete(failed(run))

    async def retry(self, run: Claimed, seconds: float = 0) -> Completed:
        return await self.complete(retried(run, seconds))

    async def snooze(self, run: Claimed, seconds: float = 0) -> Completed:
        return await self.complete(snoozed(run, seconds))


async def hand(store: Store, lease: timedelta = LEASE) -> Hand:
    """A registered worker."""
    return await Hand(store).register(lease)


def succeeded(run: Claimed, result: bytes | None = None) -> Completion:
    return Completion(run.run_id, run.fence, SUCCEED, AttemptState.SUCCEEDED, result=result)


def failed(run: Claimed) -> Completion:
    return Completion(run.run_id, run.fence, FAIL, AttemptState.FAILED, FailureClass.ERROR, "ValueError: no")


def retried(run: Claimed, seconds: float = 0) -> Completion:
    verdict = Verdict(Event.RETRY, timedelta(seconds=seconds))
    return Completion(run.run_id, run.fence, verdict, AttemptState.FAILED, FailureClass.ERROR, "ValueError: not yet")


def snoozed(run: Claimed, seconds: float = 0) -> Completion:
    verdict = Verdict(Event.RELEASE, timedelta(seconds=seconds), spent=False)
    return Completion(run.run_id, run.fence, verdict, AttemptState.SNOOZED)


def cancelled(run: Claimed) -> Completion:
    verdict = Verdict(Event.CANCEL)
    return Completion(run.run_id, run.fence, verdict, AttemptState.CANCELLED, FailureClass.CANCELLED, "not wanted")
