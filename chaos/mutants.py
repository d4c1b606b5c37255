"""The product with one promise broken at a time. A checker that does not notice has nothing to say about the product.

Each mutant is a patch that lasts for one block, and names the promises by which it has to be noticed: a checker that
finds only something else wrong has not understood it. They are broken where the promise is kept: in the store, in
firing, in the worker's slots; the workload and the checker know nothing of them. Those that a short run of real
processes can show break PostgreSQL's store too.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any, NamedTuple
from unittest.mock import patch
from uuid import UUID

import msgspec

from chaos.checker import completion, followers, limits, one_offs, quiet, recurring
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.intake import Intake
from duetime.engine.reaper import Reaper
from duetime.errors import StoreUnavailable
from duetime.ids import run_id
from duetime.model.attempt import Completion
from duetime.model.firing import Decided, DueJob, Fire, PlannedRun, plan_fire
from duetime.model.job import NewJob, Submitted
from duetime.model.limits import LimitState
from duetime.store.postgres import intake as postgres_intake
from duetime.store.postgres.completing import CompletingRole
from duetime.store.postgres.database import SQL as POSTGRES_SQL
from duetime.store.protocol.store import Completed
from duetime.store.rules import dependents
from duetime.store.shared import clocks as shared_clocks
from duetime.store.shared import settling
from duetime.store.shared.transaction import Transaction
from duetime.store.sqlite import intake as sqlite_intake
from duetime.store.sqlite.connection import SQL, Connection
from duetime.store.sqlite.limiting import Limited, free_holds
from duetime.store.sqlite.sweep import SweepRole
from duetime.worker.carried_runs import Held
from duetime.worker.slots import Slots
from duetime.worker.stream_source import StreamSource
from duetime.worker.worker import Worker

_TAKE_OVER = "update duetime.runs set worker_id = $1 where id = any($2::uuid[]) returning id, fence"


@contextmanager
def acknowledge_before_commit(_seed: int) -> Iterator[None]:
    """What fails while it is committed was promised already."""
    real = Intake.submit

    async def submit(self: Intake, jobs: Sequence[NewJob]) -> list[Submitted]:
        try:
            return await real(self, jobs)
        except StoreUnavailable:
            return [Submitted(job.id, None, job.first_run_id()) for job in jobs]

    with patch.object(Intake, "submit", submit):
        yield


@contextmanager
def drop_one_in_a_thousand(seed: int) -> Iterator[None]:
    """A job is acknowledged and forgotten, now and then."""
    random = Random(f"drop {seed}")

    def dropping(real: Callable[..., Any]) -> Callable[..., Any]:
        async def submit(self: Any, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
            kept = [job for job in jobs if random.random() >= 0.001]
            answers = {job.id: answer for job, answer in zip(kept, await real(self, tenant_id, kept), strict=True)}
            return [answers.get(job.id) or Submitted(job.id, None, job.first_run_id()) for job in jobs]

        return submit

    with (
        patch.object(sqlite_intake.IntakeRole, "submit", dropping(sqlite_intake.IntakeRole.submit)),
        patch.object(postgres_intake.IntakeRole, "submit", dropping(postgres_intake.IntakeRole.submit)),
    ):
        yield


@contextmanager
def no_fence(_seed: int) -> Iterator[None]:
    """A completion is accepted from any worker that sends it."""
    (fenced,) = SQL["exceptions"]
    free = fenced.replace(" and r.fence = x.value and r.worker_id = :worker_id", "")
    assert free != fenced
    real = CompletingRole.complete

    async def complete(
        self: CompletingRole, worker_id: UUID, completions: Sequence[Completion], closed_claims: Sequence[int] = ()
    ) -> Completed:
        async with self.database.connection() as connection:
            rows = await connection.fetch(_TAKE_OVER, worker_id, [item.run_id for item in completions])
        fences = {row[0]: row[1] for row in rows}
        taken = [msgspec.structs.replace(item, fence=fences.get(item.run_id, item.fence)) for item in completions]
        return await real(self, worker_id, taken, closed_claims)

    with patch.dict(SQL, {"exceptions": (free,)}), patch.object(CompletingRole, "complete", complete):
        yield


@contextmanager
def fire_twice(seed: int) -> Iterator[None]:
    """An occurrence becomes two runs, now and then."""
    random = Random(f"twice {seed}")

    def plan(due: DueJob, now: Any) -> Decided:
        fire = plan_fire(due, now)
        if not isinstance(fire, Fire) or not fire.recurring or not fire.runs or random.random() >= 0.05:
            return fire
        again = PlannedRun(run_id(due.job_id, fire.runs[0].due_at, b"again"), fire.runs[0].due_at)
        return msgspec.structs.replace(fire, runs=(*fire.runs, again))

    with patch("duetime.engine.scanner.plan_fire", plan):
        yield


@contextmanager
def leak_a_slot(seed: int) -> Iterator[None]:
    """A slot is not given back, now and then."""
    random, real = Random(f"leak {seed}"), Slots.give_back

    def give_back(self: Slots, place: int) -> None:
        if random.random() >= 0.01:
            real(self, place)

    with patch.object(Slots, "give_back", give_back):
        yield


@contextmanager
def fire_early(_seed: int) -> Iterator[None]:
    """A run that was fired ahead is ready a second before it is due."""
    (in_time,) = SQL["make_runs"]
    too_soon = in_time.replace("x.value ->> 2, :now", "(x.value ->> 2) - 1000000, :now")
    assert too_soon != in_time
    ready = "duetime.moment(coalesce(f.ready, f.due))"
    early = POSTGRES_SQL["make_runs"].replace(ready, f"{ready} - interval '1 second'")
    assert early != POSTGRES_SQL["make_runs"]
    with (
        patch.dict(SQL, {"make_runs": (too_soon,)}),
        patch("duetime.store.postgres.firing.SQL", {**POSTGRES_SQL, "make_runs": early}),
    ):
        yield


@contextmanager
def never_reap(_seed: int) -> Iterator[None]:
    """The reaper frees no runs of dead workers."""

    async def tick(_self: Reaper) -> float:
        return 3600.0

    with patch.object(Reaper, "tick", tick):
        yield


@contextmanager
def forget_an_end(seed: int) -> Iterator[None]:
    """An end is taken, and not handed on to those who wait for it, now and then."""
    random, real = Random(f"forget {seed}"), settling._settle_children

    async def settle(transaction: Transaction, ended: Sequence[Any]) -> None:
        await real(transaction, [item for item in ended if random.random() >= 0.05])

    with patch.object(settling, "_settle_children", settle):
        yield


@contextmanager
def follow_twice(seed: int) -> Iterator[None]:
    """A success is followed by two runs, now and then."""
    random, real = Random(f"follow {seed}"), dependents.wanted_follows

    def follows(followers: Any, ended: Any) -> dict[Any, list[Any]]:
        found = real(followers, ended)
        for causes in found.values():
            again = [cause for cause in causes if random.random() < 0.05]
            causes += [each._replace(run_id=run_id(each.run_id, each.finished_at, b"again")) for each in again]
        return found

    with patch.object(settling, "wanted_follows", follows):
        yield


@contextmanager
def wait_for_none(seed: int) -> Iterator[None]:
    """A job does not wait for its parent, now and then."""
    random, real = Random(f"nobody {seed}"), sqlite_intake.IntakeRole.submit

    async def submit(self: sqlite_intake.IntakeRole, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        jobs = [job if random.random() >= 0.2 else msgspec.structs.replace(job, depends_on=None) for job in jobs]
        return await real(self, tenant_id, jobs)

    with patch.object(sqlite_intake.IntakeRole, "submit", submit):
        yield


@contextmanager
def leak_a_permit(seed: int) -> Iterator[None]:
    """What a run held of its key is not given back, now and then, and no process recounts what is really held."""
    random = Random(f"permit {seed}")
    _, *counted = SQL["count_limits"]
    (unpark,) = SQL["unpark"]
    trusting = unpark.replace(" join runs r on r.id = h.run_id and r.fence = h.fence and r.worker_id is not null", "")
    assert trusting != unpark

    def free(connection: Connection, now: int, run_ids: Iterable[bytes]) -> None:
        if random.random() >= 0.1:
            free_holds(connection, now, run_ids)

    with (
        patch.dict(SQL, {"count_limits": tuple(counted), "unpark": (trusting,)}),
        patch("duetime.store.sqlite.completing.free_holds", free),
    ):
        yield


@contextmanager
def ignore_a_limit(seed: int) -> Iterator[None]:
    """A claim takes one more than a limit allows, now and then."""
    random, real = Random(f"limit {seed}"), Limited._count

    def count(self: Limited, limit_id: int) -> LimitState:
        state = real(self, limit_id)
        state.room += random.random() < 0.1
        return state

    with patch.object(Limited, "_count", count):
        yield


@contextmanager
def trust_the_first_look(_seed: int) -> Iterator[None]:
    """A process that has just started believes the clock."""

    def first_look(self: ClockGuard, _seen: object, at: float) -> tuple[bool, bool]:
        self._steady_at = at
        return False, False

    with patch.object(ClockGuard, "_first_reading", first_look):
        yield


@contextmanager
def wait_for_the_clock(_seed: int) -> Iterator[None]:
    """After the clock was put back, everything stays as long as it would have without that."""

    async def shift_back(_self: object) -> None:
        return None

    with patch.object(shared_clocks.ClockRole, "shift_back", shift_back):
        yield


@contextmanager
def never_sweep(_seed: int) -> Iterator[None]:
    """What runs is looked for in claims alone."""

    def nothing(_self: SweepRole, _connection: Connection, _now: int, _judge: object) -> int:
        return 0

    with patch.object(SweepRole, "sweep_within", nothing):
        yield


@contextmanager
def never_compare(_seed: int) -> Iterator[None]:
    """No worker asks what the store has under its claims."""

    async def nothing(_self: Worker, _session: object) -> None:
        return None

    with patch.object(Worker, "_compare", nothing):
        yield


@contextmanager
def acknowledge_first(_seed: int) -> Iterator[None]:
    """A message is done for its broker before the store has the end of its run."""
    real = StreamSource._end

    async def end(self: StreamSource, worker_id: UUID, ended: Sequence[tuple[Held, Completion]]) -> frozenset[UUID]:
        for each, _ in ended:
            each.acknowledge(each.deliveries)
        await asyncio.sleep(0.5)
        return await real(self, worker_id, ended)

    with patch.object(StreamSource, "_end", end):
        yield


class Mutant(NamedTuple):
    broken: Callable[[int], AbstractContextManager[None]]
    """The product is broken inside of this block; the seed draws when."""
    promises: tuple[str, ...]
    """Any of these has to be found broken."""
    streamed: bool = False
    """It breaks stream queues, which the simulation does not have: a scenario of real processes must notice it."""

    def noticed_by(self, violations: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
        """Those of the violations by which it is noticed."""
        return [violation for violation in violations if violation[0] in self.promises]


_UNDONE = (one_offs.LOST, quiet.OVER)
"""Something is left that should have come to its end."""

MUTANTS: dict[str, Mutant] = {
    "acknowledge-before-commit": Mutant(acknowledge_before_commit, (one_offs.LOST,)),
    "drop-one-in-a-thousand": Mutant(drop_one_in_a_thousand, (one_offs.LOST,)),
    "no-fence": Mutant(no_fence, (completion.ONE_END,)),
    "fire-twice": Mutant(fire_twice, (recurring.ONCE,)),
    "leak-a-slot": Mutant(leak_a_slot, (quiet.WHOLE,)),
    "fire-early": Mutant(fire_early, (one_offs.EARLY,)),
    "never-reap": Mutant(never_reap, _UNDONE),
    "never-sweep": Mutant(never_sweep, (quiet.STUCK,)),
    "never-compare": Mutant(never_compare, (quiet.STUCK,)),
    "forget-an-end": Mutant(forget_an_end, _UNDONE),
    "follow-twice": Mutant(follow_twice, (followers.FOLLOWED,)),
    "wait-for-none": Mutant(wait_for_none, (followers.AFTER,)),
    "leak-a-permit": Mutant(leak_a_permit, _UNDONE),
    "ignore-a-limit": Mutant(ignore_a_limit, (limits.WITHIN,)),
    "trust-the-first-look": Mutant(trust_the_first_look, (completion.ALONE,)),
    "wait-for-the-clock": Mutant(wait_for_the_clock, (completion.FREED,)),
    "acknowledge-first": Mutant(acknowledge_first, _UNDONE, streamed=True),
}
SIMULATED = {name: mutant for name, mutant in MUTANTS.items() if not mutant.streamed}
