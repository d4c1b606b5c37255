"""A store that is observed while it works: what passes through is counted and, where it is asked for, traced.

Everything that happens to runs passes through the store, so this is the one place to count it: for workers that claim
for themselves, for remote workers that a server claims for, for the scanner and the reaper. A batch is counted as a
whole after the call. Calls that are not observed go straight to the store.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import UUID

from duetime.clock import SystemClock, monotonic
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.carried import CarriedEnd, CarriedRun
from duetime.model.firing import Decided, DueJob, Fire
from duetime.model.job import NewJob, Submitted
from duetime.model.lane import Lane, LaneChanges, LaneKey, LaneTurn
from duetime.model.run import Event
from duetime.model.tenant import DEFAULT_TIER
from duetime.model.tracing import make_message, message_of
from duetime.model.worker import Lost, Seat, Worker, WorkerInfo
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.service import JudgeLost
from duetime.store.protocol.store import (
    CallerTransactions,
    Claims,
    Completed,
    Completions,
    Firing,
    Intake,
    Leases,
    PlanFires,
    Reaping,
    Scan,
    Store,
)
from duetime.store.protocol.streams import Streams
from duetime.store.wrappers.overlay import wrapped
from duetime.telemetry.meters import Meters
from duetime.telemetry.traces import Message, Tracer

S = TypeVar("S", bound=Store)
R = TypeVar("R")

_SUCCEED = Event.SUCCEED
_ENDS = {Event.SUCCEED: "succeeded", Event.FAIL: "failed", Event.CANCEL: "cancelled", Event.SKIP: "skipped"}
_MISSED = "missed"
"""How the reason of an occurrence begins that was skipped because it was late."""
_MOST_WORKERS = 10_000
_NO_WORKER = UUID(int=0)
_UNKNOWN = "unknown"
"""The tier of runs that the reaper has judged: it is not told whose they are."""
_clock = SystemClock()


def observed(store: S, observer: "StoreObserver") -> S:
    """This store, with everything that happens to runs told to the observer."""
    return wrapped(
        store,
        observer,
        intake=ObservedIntake,
        firing=ObservedFiring,
        claims=ObservedClaims,
        leases=ObservedLeases,
        completions=ObservedCompletions,
        caller_transactions=ObservedCallerTransactions,
        reaping=ObservedReaping,
        streams=ObservedStreams,
    )


class StoreObserver:
    """What is known of runs that pass through a store, and how they are counted."""

    def __init__(self, meters: Meters, tracer: Tracer | None = None) -> None:
        self.meters = meters
        self.tracer = tracer
        self.completed_within: set[UUID] = set()
        """Runs that were completed in a transaction of their task, and whose completion is about to be refused."""
        self._lanes: dict[int, LaneKey] = {}
        self._tenants: dict[UUID, int] = {}
        """The tenant of each worker that has only one."""
        self._tiers: dict[int, str] = {}

    def know_tiers(self, tiers: dict[int, str]) -> None:
        """The tier of each tenant whose tier is not the usual one."""
        self._tiers = tiers

    def know_lanes(self, lanes: Sequence[Lane]) -> None:
        self._lanes.update((lane.id, lane.key) for lane in lanes)

    def forget_lanes(self, lane_ids: Sequence[int]) -> None:
        for lane_id in lane_ids:
            self._lanes.pop(lane_id, None)

    def know_worker(self, worker_id: UUID, tenant_id: int | None) -> None:
        if tenant_id is not None:
            if len(self._tenants) >= _MOST_WORKERS:
                self._tenants.clear()  # they are asked for again
            self._tenants[worker_id] = tenant_id

    def did(self, name: str, began: float, size: int) -> None:
        work = self.meters.work[name]
        work.seconds.add(monotonic() - began)
        work.sizes.add(size)

    def claimed(self, claimed: Sequence[Claimed], began: float, at: int) -> None:
        if not claimed:
            return
        self.did("claim", began, len(claimed))
        self.meters.due_lag.add_microseconds([run.started - run.due for run in claimed if run.fence == 1])
        if self.tracer is not None:
            # This node may not know a lane yet that another node created: its runs are claimed, but not traced here.
            placed = [(run, self._lanes.get(run.lane_id)) for run in claimed if run.options is not None]
            messages = [message_of(run, lane) for run, lane in placed if lane is not None]
            self.tracer.claimed(messages, at, _moment(self.tracer))

    def ended(self, worker_id: UUID | None, completions: Sequence[Completion], refused: frozenset[UUID]) -> None:
        attempts = self.meters.attempts
        # Most succeed, and are counted without a look at each.
        plain = [item.lane_id for item in completions if item.failure is None and item.verdict.event is _SUCCEED]
        if refused or len(plain) < len(completions):
            plain = [lane_id for item in completions for lane_id in self._each(worker_id, item, refused)]
        for lane_id, count in Counter(plain).items():
            self.meters.runs["succeeded"] += count
            attempts["none", self._tier(worker_id, lane_id)] += count

    def carried_ended(self, ended: Sequence[CarriedEnd], refused: frozenset[UUID]) -> None:
        accepted = [end for end in ended if end.run.run_id not in refused] if refused else ended
        self.meters.fence_rejections += len(ended) - len(accepted)
        self.meters.due_lag.add_microseconds([max(0, end.started - end.run.due) for end in accepted])
        self.meters.runs["succeeded"] += len(accepted)
        for tenant_id, count in Counter([end.run.lane.tenant_id for end in accepted]).items():
            self.meters.attempts["none", self._tiers.get(tenant_id, DEFAULT_TIER)] += count

    def _each(self, worker_id: UUID | None, item: Completion, refused: frozenset[UUID]) -> tuple[int, ...]:
        """The lane of a success, to be counted with others; else it has been counted."""
        if item.run_id in refused:
            self._refused(item)
        elif item.failure is None and item.verdict.event is _SUCCEED:
            return (item.lane_id,)
        else:
            self._ended_otherwise(item)
            self.meters.attempts[_label(item), self._tier(worker_id, item.lane_id)] += 1
        return ()

    def _refused(self, item: Completion) -> None:
        if item.run_id in self.completed_within:
            self.completed_within.discard(item.run_id)
            self.meters.runs["succeeded"] += 1
        else:
            self.meters.fence_rejections += 1

    def _ended_otherwise(self, item: Completion) -> None:
        meters = self.meters
        event = item.verdict.event
        if event is Event.RETRY:
            meters.retries += 1
        elif event in _ENDS:
            meters.runs[_ENDS[event]] += 1
        if item.attempt_state is AttemptState.LOST:
            meters.lease_expirations += 1
        elif item.attempt_state is AttemptState.SKIPPED:
            meters.missed += 1

    def _tier(self, worker_id: UUID | None, lane_id: int) -> str:
        lane = self._lanes.get(lane_id)
        tenant_id = self._tenants.get(worker_id or _NO_WORKER) if lane is None else lane.tenant_id
        return _UNKNOWN if tenant_id is None else self._tiers.get(tenant_id, DEFAULT_TIER)


class _Observed(Generic[R]):
    def __init__(self, inner: R, observer: StoreObserver) -> None:
        self._inner = inner
        self._observer = observer


class ObservedIntake(_Observed[Intake]):
    async def submit(self, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        began = monotonic()
        answers = await self._inner.submit(tenant_id, jobs)
        self._observer.did("submit", began, len(jobs))
        return answers

    def note_carried(self, count: int, seconds: float) -> None:
        self._observer.did("submit", monotonic() - seconds, count)


class ObservedFiring(_Observed[Firing]):
    async def fire_due(self, limit: int, plan: PlanFires, without: Collection[UUID] = ()) -> Scan:
        decided: Sequence[Decided] = ()
        seen: Sequence[DueJob] = ()

        def look(due: Sequence[DueJob], now: datetime) -> Sequence[Decided]:
            nonlocal decided, seen
            seen, decided = due, plan(due, now)
            return decided

        began, at = monotonic(), _moment(self._observer.tracer)
        scan = await self._inner.fire_due(limit, look, without)
        if decided:
            self._observer.did("fire", began, scan.fired)
            self._observer.meters.passed_by += len(scan.passed_by)
            fires = [fire for fire in decided if isinstance(fire, Fire)]
            for fire in fires:
                self._observer.meters.fired += len(fire.runs)
                if fire.skips:
                    self._observer.meters.runs["skipped"] += len(fire.skips)
                    self._observer.meters.missed += sum(1 for skip in fire.skips if skip.reason.startswith(_MISSED))
            if self._observer.tracer is not None:
                self._observer.tracer.fired(_fired(seen, fires), at, _moment(self._observer.tracer))
        return scan


class ObservedClaims(_Observed[Claims]):
    async def lanes(self) -> list[Lane]:
        found = await self._inner.lanes()
        self._observer.know_lanes(found)
        return found

    async def lane_changes(self, after: LaneTurn) -> LaneChanges:
        changes = await self._inner.lane_changes(after)
        self._observer.know_lanes(changes.awake)
        self._observer.forget_lanes(changes.asleep)
        return changes

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        began, at = monotonic(), _moment(self._observer.tracer)
        claimed = await self._inner.claim(worker_id, claim_no, takes)
        self._observer.claimed(claimed, began, at)
        return claimed

    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        began, at = monotonic(), _moment(self._observer.tracer)
        claimed = await self._inner.claim_announced(worker_id, claim_no, announced)
        self._observer.claimed(claimed, began, at)
        return claimed

    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        began, at = monotonic(), _moment(self._observer.tracer)
        dealt = await self._inner.claim_many(seats, takes)
        self._observer.claimed([run for runs in dealt.values() for run in runs], began, at)
        return dealt


class ObservedLeases(_Observed[Leases]):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        self._observer.know_worker(worker.id, worker.tenant_id)
        return await self._inner.register(worker, lease)

    async def worker(self, worker_id: UUID) -> Worker:
        found = await self._inner.worker(worker_id)
        self._observer.know_worker(worker_id, found.tenant_id)
        return found


class ObservedCompletions(_Observed[Completions]):
    async def complete(
        self, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        began = monotonic()
        answer = await self._inner.complete(worker_id, completions, closed_claims)
        self._observer.did("complete", began, len(completions))
        self._observer.ended(worker_id, completions, answer.refused)
        return answer

    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        began = monotonic()
        answers = await self._inner.complete_many(reports)
        self._observer.did("complete", began, sum(len(completions) for _, completions, _ in reports))
        for (worker_id, completions, _), refused in zip(reports, answers, strict=True):
            self._observer.ended(worker_id, completions, refused)
        return answers


class ObservedCallerTransactions(_Observed[CallerTransactions]):
    async def complete_within(
        self, connection: object, worker_id: UUID, run_id: UUID, fence: int, result: bytes | None, logs: bytes | None
    ) -> None:
        await self._inner.complete_within(connection, worker_id, run_id, fence, result, logs)
        self._observer.completed_within.add(run_id)


class ObservedReaping(_Observed[Reaping]):
    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        judged: dict[UUID, Completion] = {}

        def look(lost: Sequence[Lost]) -> Sequence[Completion]:
            completions = judge(lost)
            judged.update((item.run_id, item) for item in completions)  # once, however often it is tried
            return completions

        reaped = await self._inner.reap(limit, look, overdue)
        self._observer.ended(None, list(judged.values()), frozenset())
        return reaped


class ObservedStreams(_Observed[Streams]):
    async def end_carried(self, worker_id: UUID, ended: Sequence[CarriedEnd]) -> frozenset[UUID]:
        began = monotonic()
        refused = await self._inner.end_carried(worker_id, ended)
        self._observer.did("complete", began, len(ended))
        self._observer.carried_ended(ended, refused)
        return refused

    async def assign(self, seats: Sequence[Seat], runs: Sequence[tuple[CarriedRun, int]]) -> dict[UUID, list[Claimed]]:
        began, at = monotonic(), _moment(self._observer.tracer)
        dealt = await self._inner.assign(seats, runs)
        self._observer.claimed([run for runs in dealt.values() for run in runs], began, at)
        return dealt


def _label(item: Completion) -> str:
    return "none" if item.failure is None else item.failure.label


def _fired(due: Sequence[DueJob], fires: Sequence[Fire]) -> list[Message]:
    options = {job.job_id: job.options for job in due if job.options is not None}
    return [
        make_message(run.run_id, fire.job_id, fire.lane, options[fire.job_id])
        for fire in fires
        if fire.job_id in options
        for run in fire.runs
    ]


def _moment(tracer: Tracer | None) -> int:
    """Now, in nanoseconds, if tracing is on."""
    return 0 if tracer is None else int(_clock.now().timestamp() * 1e9)
