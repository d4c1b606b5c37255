"""The product with one promise broken at a time. A checker that does not notice has nothing to say about the product.

Each mutant is a patch that lasts for one block. They are broken where the promise is kept: in the store, in firing, in
the worker's slots; the workload and the checker know nothing of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any
from unittest.mock import patch

import msgspec

from duetime.engine.intake import Intake
from duetime.engine.reaper import Reaper
from duetime.errors import StoreUnavailable
from duetime.ids import run_id
from duetime.model.firing import DueJob, Fire, PlannedRun, SetAside, plan_fire
from duetime.model.job import NewJob, Submitted
from duetime.store.sqlite import SqliteStore
from duetime.store.sqlite.connection import SQL, Connection
from duetime.worker.slots import Slots

Mutant = Callable[[int], AbstractContextManager[None]]


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
    random, real = Random(f"drop {seed}"), SqliteStore.submit

    async def submit(self: SqliteStore, tenant_id: int, jobs: Sequence[NewJob]) -> list[Submitted]:
        kept = [job for job in jobs if random.random() >= 0.001]
        answers = {job.id: answer for job, answer in zip(kept, await real(self, tenant_id, kept), strict=True)}
        return [answers.get(job.id) or Submitted(job.id, None, job.first_run_id()) for job in jobs]

    with patch.object(SqliteStore, "submit", submit):
        yield


@contextmanager
def no_fence(_seed: int) -> Iterator[None]:
    """A completion is taken from whoever sends it."""
    (fenced,) = SQL["exceptions"]
    free = fenced.replace(" and r.fence = x.value and r.worker_id = :worker_id", "")
    assert free != fenced
    with patch.dict(SQL, {"exceptions": (free,)}):
        yield


@contextmanager
def fire_twice(seed: int) -> Iterator[None]:
    """An occurrence becomes two runs, now and then."""
    random = Random(f"twice {seed}")

    def plan(due: DueJob, now: Any) -> Fire | SetAside:
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
    real = Connection.many

    def many(self: Connection, name: str, rows: Sequence[Any]) -> None:
        if name == "make_runs":
            rows = [{**row, "ready_at": row["ready_at"] - 1_000_000} for row in rows]
        real(self, name, rows)

    with patch.object(Connection, "many", many):
        yield


@contextmanager
def never_reap(_seed: int) -> Iterator[None]:
    """Nobody frees the runs of the dead."""

    async def tick(_self: Reaper) -> float:
        return 3600.0

    with patch.object(Reaper, "tick", tick):
        yield


MUTANTS: dict[str, Mutant] = {
    "acknowledge-before-commit": acknowledge_before_commit,
    "drop-one-in-a-thousand": drop_one_in_a_thousand,
    "no-fence": no_fence,
    "fire-twice": fire_twice,
    "leak-a-slot": leak_a_slot,
    "fire-early": fire_early,
    "never-reap": never_reap,
}
