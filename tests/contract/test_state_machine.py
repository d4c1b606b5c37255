"""Any sequence of steps: after each of them the store shows what the reference model says.

The steps are the same each time, unless `--hypothesis-seed` asks for others. `HYPOTHESIS_PROFILE=deep` searches for
longer, and anew each time.
"""

import asyncio
import tempfile
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from duetime.errors import Conflict, JobBusy, KeyReused, LeaseLost, NotFound
from duetime.model.attempt import Claimed, Completion
from duetime.model.edit import changes_for
from duetime.model.firing import Decided, DueJob, Fire, SetAside, plan_fire
from duetime.model.job import NewJob, Options, Submitted, encode_options
from duetime.model.lane import LaneKey, Tier
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import NOW, Every, Once
from duetime.model.worker import WorkerInfo
from tests.contract.announcements import Announcements
from tests.contract.conftest import CHOSEN
from tests.contract.hands import (
    GRACE,
    LEASE,
    STRANGER,
    TENANT,
    cancelled,
    failed,
    job,
    judge,
    retried,
    snoozed,
    succeeded,
)
from tests.contract.reference import Reference, RefRun
from tests.contract.worlds import START, PostgresWorld, SqliteWorld, World
from tests.support.depth import DEEP

T = TypeVar("T")
TENANTS = (TENANT, STRANGER)
SHOWN = 100  # of a job's runs, newest first
LONG_LEASE = timedelta(minutes=10)
SHORT_TEMPER = encode_options(Options(retry=RetryPolicy(retries=1, lost_retries=1)))
AT_MOST_ONCE = encode_options(Options(at_most_once=True))

seconds = st.sampled_from([0, 0, 1, 7, 15, 16, 40, 90])
schedules = (
    st.just(NOW)
    | st.builds(lambda late: Once(delay=timedelta(seconds=late)), seconds)
    | st.builds(lambda late: Once(at=START + timedelta(seconds=4 * late)), seconds)
)
recurring = st.builds(lambda every: Every(timedelta(seconds=every)), st.sampled_from([2, 10, 60]))
sometimes = st.sampled_from([False, False, False, True])
worker_numbers = st.integers(0, 2)
places = st.integers(0, 30)
ends: list[Callable[[Claimed], Completion]] = [
    succeeded,
    lambda run: succeeded(run, result=b"1"),
    failed,
    cancelled,
    retried,
    lambda run: retried(run, 20),
    snoozed,
    lambda run: snoozed(run, 20),
]


@st.composite
def new_jobs(draw: st.DrawFn, tenant_id: int) -> NewJob:
    repeated = draw(st.booleans())
    # Keys are few, so that they meet; a recurring job and a one-off never share one.
    key = draw(st.none() | st.sampled_from(["r1", "r2"] if repeated else ["o1", "o2"]))
    schedule: Once | Every = draw(recurring) if repeated else draw(schedules)
    return job(
        schedule,
        tenant_id=tenant_id,
        task=draw(st.sampled_from(["greet", "count"])),
        queue=draw(st.sampled_from(["default", "slow"])),
        tier=draw(st.sampled_from([Tier.HIGH, Tier.LOW])),
        args=draw(st.sampled_from([b"[1]", b"[2]"])),
        options=draw(st.sampled_from([None, SHORT_TEMPER, AT_MOST_ONCE])),
        timeout_ms=draw(st.sampled_from([None, 12_000])),
        key=key,
        idempotency_key=draw(st.none() | st.none() | st.sampled_from(["i1", "i2"])),
    )


class Machine(RuleBasedStateMachine):
    def __init__(self, make_world: Callable[[], World]) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.world = make_world()
        self.store = self.world.store
        self.model = Reference(self.world.time.now, restamps=not self.store.embedded)
        self.ids = self.step = 0
        self.workers = [self._next_id() for _ in range(3)]
        self.claim_numbers = dict.fromkeys(self.workers, 0)
        self.seen: dict[UUID, list[Claimed]] = {worker: [] for worker in self.workers}
        self.known: dict[UUID, int] = {}
        """Every job ever stored, and its tenant."""
        self.shown: dict[UUID, object] = {}
        """What the store showed of each job when it was last looked at."""

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def _next_id(self) -> UUID:
        """Ids that are the same whenever the same steps are taken."""
        self.ids += 1
        return UUID(int=(int(START.timestamp() * 1000) << 80) | (7 << 76) | (0b10 << 62) | self.ids)

    def lanes(self) -> dict[int, LaneKey]:
        return {lane.id: lane.key for lane in self.run(self.store.claims.lanes())}

    @initialize()
    def open(self) -> None:
        self.run(self.store.open())
        self.run(self.store.migrate())
        self.announced = Announcements(self.store)
        for number in range(3):
            self._register(number)
        self._submit(TENANT, [job(timeout_ms=12_000), job(Every(timedelta(seconds=10)), key="r1"), job(key="o1")])

    def teardown(self) -> None:
        try:
            self.run(self._compare(self.known))
        finally:
            self.run(self.store.close())
            self.runner.close()

    @rule(data=st.data(), tenant_id=st.sampled_from(TENANTS), count=st.integers(1, 3))
    def submit(self, data: st.DataObject, tenant_id: int, count: int) -> None:
        self._submit(tenant_id, [data.draw(new_jobs(tenant_id)) for _ in range(count)])

    @rule(count=st.integers(1, 5), options=st.sampled_from([None, SHORT_TEMPER]))
    def submit_for_now(self, count: int, options: bytes | None) -> None:
        self._submit(TENANT, [job(options=options, timeout_ms=12_000 if n == 0 else None) for n in range(count)])

    @rule(key=st.sampled_from(["r1", "r1", "o1"]), args=st.sampled_from([b"[1]", b"[2]", b"[3]"]))
    def edit(self, key: str, args: bytes) -> None:
        self._submit(TENANT, [job(Every(timedelta(seconds=10)) if key == "r1" else NOW, key=key, args=args)])

    @precondition(lambda self: self.known)
    @rule(data=st.data(), place=places, stranger=sometimes)
    def edit_by_id(self, data: st.DataObject, place: int, stranger: bool) -> None:
        in_first_home = [job_id for job_id in self.known if job_id in self.model.jobs] or list(self.known)
        job_id = in_first_home[-1 - place % len(in_first_home)]
        tenant_id = TENANT + STRANGER - self.known[job_id] if stranger else self.known[job_id]
        wanted = data.draw(new_jobs(tenant_id))
        if job_id in self.model.jobs and isinstance(wanted.schedule, Once) != isinstance(
            self.model.jobs[job_id].schedule, Once
        ):
            return  # what repeats stays what repeats, as it does under a key
        edit = self.store.control.edit_job(tenant_id, job_id, changes_for(wanted))
        try:
            self.model.edit_job(tenant_id, job_id, wanted)
        except (NotFound, Conflict) as error:
            with pytest.raises(type(error)):
                self.run(edit)
        else:
            self.run(edit)

    def _submit(self, tenant_id: int, jobs: list[NewJob]) -> None:
        jobs = [msgspec.structs.replace(item, id=self._next_id()) for item in jobs]
        expected: list[Submitted] | type[Exception]
        try:
            expected = self.model.submit(jobs)
        except (KeyReused, JobBusy) as error:
            expected = type(error)
        if isinstance(expected, type):
            with pytest.raises(expected):
                self.run(self.store.intake.submit(tenant_id, jobs))
            return
        answers = self.run(self.store.intake.submit(tenant_id, jobs))
        for answer, wanted in zip(answers, expected, strict=True):
            assert (answer.job_id, answer.next_run, answer.run_id, answer.created) == (
                wanted.job_id,
                wanted.next_run,
                wanted.run_id,
                wanted.created,
            )
            self.known[answer.job_id] = tenant_id

    @precondition(lambda self: self.model.in_view())
    @rule(limit=st.sampled_from([1, 3, 1000]), aside=sometimes, really=sometimes)
    def fire(self, limit: int, aside: bool, really: bool) -> None:
        decided: list[Decided] = []

        def plan(due: Sequence[DueJob], now: datetime) -> list[Decided]:
            assert now == self.model.now
            decided.extend(plan_fire(item, now) for item in due)
            if aside and really:
                decided[0] = SetAside(due[0].job_id, "unreadable")
            return decided

        in_view = self.model.in_view()
        scan = self.run(self.store.firing.fire_due(limit, plan))
        assert scan.seen == len(decided) == min(limit, len(in_view))
        assert {item.job_id for item in decided} <= {item.id for item in in_view}
        self.model.fire(decided)
        assert scan.fired == sum(isinstance(item, Fire) for item in decided)

    @rule(number=worker_numbers, what=st.sampled_from(["register", "leave", "renew", "renew", "forget", "forget"]))
    def lease(self, number: int, what: str) -> None:
        if what == "register":
            self._register(number)
        elif what == "leave":
            self.model.leave(self.workers[number])
            self.run(self.store.leases.leave(self.workers[number]))
        else:
            self._renew(self.workers[number], listed=what == "renew")

    def _register(self, number: int) -> None:
        """The first worker dies soon, the others live longer than the lease that they renew with."""
        lease = LEASE if number == 0 else LONG_LEASE
        info = WorkerInfo(self.workers[number], "hand", (), (), 5)
        expected = self.model.register(self.workers[number], lease)
        assert self.run(self.store.leases.register(info, lease)) == expected

    def _look(self, lanes: dict[int, LaneKey], depth: int) -> None:
        look = self.run(self.store.claims.look(list(lanes), depth))
        assert look.now == self.model.now
        seen = {lanes[sight.lane_id]: list(zip(sight.ready_at, sight.run_ids, strict=True)) for sight in look.sights}
        expected = {lane: self._head(lane, depth) for lane in lanes.values()}
        assert seen == {lane: [(run.ready_at, run.id) for run in runs] for lane, runs in expected.items() if runs}

    def _head(self, lane: LaneKey, depth: int) -> list[RefRun]:
        waiting = self.model.waiting_in(lane)
        ready = sum(run.ready_at <= self.model.now for run in waiting)
        return waiting[: min(depth, ready + 1)]

    @precondition(lambda self: any(run.worker_id is None for run in self.model.live()))
    @rule(number=worker_numbers, take=st.integers(1, 4), again=sometimes, dead=sometimes)
    def claim(self, number: int, take: int, again: bool, dead: bool) -> None:
        worker = self.workers[number]
        if not dead and not self.model.is_alive(worker):
            self._register(number)
        self._claim(worker, take, again=again)

    @precondition(lambda self: any(run.worker_id is None for run in self.model.live()))
    @rule(number=worker_numbers)
    def claim_all(self, number: int) -> None:
        self._register(number)
        self._claim(self.workers[number], 100)

    def _claim(self, worker: UUID, take: int, *, again: bool = False) -> None:
        if not again or not self.claim_numbers[worker]:
            self.claim_numbers[worker] += 1
        claim_no = self.claim_numbers[worker]
        lanes = self.lanes()
        self._look(lanes, take)
        claimed = self.run(self.store.claims.claim(worker, claim_no, [(lane_id, take) for lane_id in lanes]))
        expected = self.model.claim(worker, claim_no, [(lane, take) for lane in lanes.values()])
        assert sorted(
            (run.run_id, run.job_id, lanes[run.lane_id], run.fence, run.attempt, run.lost, run.due_at, run.ready_at)
            for run in claimed
        ) == sorted(
            (run.id, run.job_id, run.lane, run.fence, run.attempt, run.lost, run.due_at, run.ready_at)
            for run in expected
        )
        assert {run.started_at for run in claimed} == {run.started_at for run in expected}
        self.seen[worker] += claimed

    @precondition(lambda self: any(self.seen.values()))
    @rule(
        number=worker_numbers,
        what=st.lists(st.tuples(places, st.sampled_from(ends)), min_size=1, max_size=4),
        close=st.booleans(),
        early=sometimes,
        stale=sometimes,
        stranger=sometimes,
    )
    def complete(
        self,
        number: int,
        what: list[tuple[int, Callable[[Claimed], Completion]]],
        close: bool,
        early: bool,
        stale: bool,
        stranger: bool,
    ) -> None:
        """What a worker holds; sometimes also what it held before, or what another one holds. Sometimes it closes
        claims too early."""
        worker = self._busy(number)
        chosen = {run.run_id: end(run) for run, end in self._choose(worker, what, stale=stale)}
        if stranger:
            worker = self.workers[number]
        self._complete(worker, list(chosen.values()), close=close, early=early)

    @precondition(lambda self: any(self.seen.values()))
    @rule(number=worker_numbers, end=st.sampled_from(ends))
    def complete_all(self, number: int, end: Callable[[Claimed], Completion]) -> None:
        worker = self._busy(number)
        held = [run for run in self.seen[worker] if self.model.holds(worker, run.run_id, run.fence)]
        self._complete(worker, [end(run) for run in {run.run_id: run for run in held}.values()], close=True)

    def _complete(self, worker: UUID, completions: list[Completion], *, close: bool, early: bool = False) -> None:
        refused = self.model.complete(worker, completions)
        closed = [
            claim_no
            for held_by, claim_no in self.model.claims
            if close and held_by == worker and (early or not self.model.held(worker, claim_no))
        ]
        self.model.complete(worker, [], closed)
        assert self.run(self.store.completions.complete(worker, completions, closed)).refused == refused

    @precondition(lambda self: any(self.seen.values()))
    @rule(number=worker_numbers, what=st.lists(places, min_size=1, max_size=4), stale=sometimes)
    def hand_back(self, number: int, what: list[int], stale: bool) -> None:
        worker = self._busy(number)
        chosen = self._choose(worker, [(place, None) for place in what], stale=stale)
        pairs = {(run.run_id, run.fence) for run, _ in chosen}
        assert self.run(self.store.completions.hand_back(worker, list(pairs))) == self.model.hand_back(worker, pairs)

    def _busy(self, number: int) -> UUID:
        """This worker, or the next one that has ever claimed something."""
        return next(worker for worker in self.workers[number:] + self.workers[:number] if self.seen[worker])

    def _choose(self, worker: UUID, what: list[tuple[int, T]], *, stale: bool) -> list[tuple[Claimed, T]]:
        """Some of what a worker holds, or (`stale`) of what it held before."""
        held = [self.model.holds(worker, run.run_id, run.fence) is not None for run in self.seen[worker]]
        seen = [run for run, is_held in zip(self.seen[worker], held, strict=True) if is_held != stale]
        return [(seen[place % len(seen)], thing) for place, thing in what] if seen else []

    def _renew(self, worker: UUID, *, listed: bool) -> None:
        open_claims = [claim_no for held_by, claim_no in self.model.claims if held_by == worker and listed]
        try:
            freed = self.model.renew(worker, LEASE, open_claims)
        except LeaseLost:
            with pytest.raises(LeaseLost):
                self.run(self.store.leases.renew(worker, LEASE, open_claims))
            return
        renewal = self.run(self.store.leases.renew(worker, LEASE, open_claims))
        assert (renewal.lease_until, renewal.freed) == (self.model.workers[worker], freed)
        assert set(renewal.cancelled) == self.model.cancellations(worker)

    @precondition(lambda self: self.model.claims)
    @rule(number=worker_numbers)
    def lose_claims(self, number: int) -> None:
        """As a database does that went back, or an operator who removes rows."""
        worker = self.workers[number]
        self.run(self.world.lose_claims(worker))
        self.model.claims = {key: claim for key, claim in self.model.claims.items() if key[0] != worker}

    @precondition(lambda self: self.model.claims or any(run.worker_id for run in self.model.live()))
    @rule(late=st.sampled_from([0, 0, 31]))
    def reap(self, late: int) -> None:
        self.advance(late)
        assert self.run(self.store.reaping.reap(1000, judge, GRACE)) == self.model.reap(judge, GRACE)

    @precondition(lambda self: self.known)
    @rule(
        place=places, what=st.sampled_from(["a running run", "a running run", "any run", "a job"]), stranger=sometimes
    )
    def cancel(self, place: int, what: str, stranger: bool) -> None:
        runs = [run for run in self.model.runs.values() if what == "any run" or run.worker_id is not None]
        job_id = list(self.known)[-1 - place % len(self.known)]
        if what != "a job":
            if not runs:
                return
            run_id, job_id = runs[place % len(runs)].id, runs[place % len(runs)].job_id
        tenant_id = TENANT + STRANGER - self.known[job_id] if stranger else self.known[job_id]
        if what == "a job":
            self._cancel(
                lambda: self.model.cancel_job(tenant_id, job_id), self.store.control.cancel_job(tenant_id, job_id)
            )
        else:
            self._cancel(
                lambda: self.model.cancel_run(tenant_id, run_id), self.store.control.cancel_run(tenant_id, run_id)
            )

    def _cancel(self, in_model: Callable[[], None], in_store: Coroutine[Any, Any, object]) -> None:
        try:
            in_model()
        except NotFound:
            with pytest.raises(NotFound):
                self.run(in_store)
        else:
            self.run(in_store)

    @rule(late=st.sampled_from([1, 5, 14, 29, 31]))
    def advance(self, late: int) -> None:
        self.model.now = self.world.time.advance(seconds=late)

    @invariant()
    def the_store_shows_what_the_model_says(self) -> None:
        """Of each job that should have changed, and of one that should not; of all of them in the end."""
        changed = {job_id for job_id in self.known if self.shown.get(job_id) != self._expected(job_id)}
        if self.known:
            changed.add(list(self.known)[self.step % len(self.known)])
            self.step += 1
        self.run(self._compare(changed))

    @invariant()
    def what_became_claimable_was_announced(self) -> None:
        self.run(self.announced.check())

    def _expected(self, job_id: UUID) -> object:
        runs = [
            (run.id, run.state, run.attempt, run.lost, run.fence, run.due_at, tuple(run.attempts))
            for run in self.model.runs_of(job_id)[:SHOWN]
        ]
        return runs, self.model.job_view(job_id)

    async def _compare(self, job_ids: Iterable[UUID]) -> None:
        await asyncio.gather(*(self._compare_job(job_id) for job_id in job_ids))
        counts = await self.store.reads.counts()
        assert (counts.jobs, counts.runs, counts.history, counts.dead_letters) == (
            len(self.model.jobs),
            len(self.model.live()),
            self.model.history,
            self.model.dead_letters,
        )

    async def _compare_job(self, job_id: UUID) -> None:
        tenant_id = self.known[job_id]
        runs, found = await asyncio.gather(
            self.store.reads.runs_of_job(tenant_id, job_id, SHOWN), self.store.reads.job(tenant_id, job_id)
        )
        shown = [
            (
                run.id,
                run.state,
                run.attempt,
                run.lost,
                run.fence,
                run.due_at,
                tuple((attempt.attempt, attempt.fence, attempt.state) for attempt in run.attempts),
            )
            for run in runs
        ]
        self.shown[job_id] = shown, (found.state, found.next_run)
        assert self.shown[job_id] == self._expected(job_id)


def search(make_world: Callable[[], World], examples: int, *, seeded: bool) -> None:
    run_state_machine_as_test(
        lambda: Machine(make_world),  # type: ignore[arg-type]
        settings=settings(
            max_examples=examples * 50 if DEEP else examples,
            stateful_step_count=80 if DEEP else 40,
            deadline=None,
            derandomize=not DEEP and not seeded,
            database=None,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.shrink],
        ),
    )


@pytest.fixture
def seeded(pytestconfig: pytest.Config) -> bool:
    return pytestconfig.getoption("--hypothesis-seed") is not None


@pytest.mark.timeout(7200 if DEEP else 240)
def test_sqlite_does_what_the_model_says(seeded: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        number = iter(range(1_000_000))
        search(lambda: SqliteWorld(Path(folder) / f"{next(number)}.db"), examples=20, seeded=seeded)


@pytest.mark.timeout(7200 if DEEP else 240)
@pytest.mark.parametrize("binaries", CHOSEN, ids=str)
def test_postgres_does_what_the_model_says(binaries: Any, seeded: bool) -> None:
    search(lambda: PostgresWorld(binaries), examples=6, seeded=seeded)
