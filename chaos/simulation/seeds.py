"""Many seeds, on as many processes as asked for; the first that fails can be replayed by one command."""

import logging
import multiprocessing
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from chaos.checker import check
from chaos.mutants import MUTANTS
from chaos.simulation.world import World

MOST_TURNS = 150_000
"""How many callbacks a simulated hour may take: a loop that never rests takes many more."""

_AT_ONCE = 25
"""Seeds for each process, before more are asked for."""


class Outcome(NamedTuple):
    seed: int
    violations: list[tuple[str, str]]
    counts: dict[str, int]
    planned: int
    """How many faults were to strike."""
    struck: dict[str, int]
    """Those that really hit something, by kind."""
    hours: float
    seconds: float


def run_seed(
    seed: int,
    *,
    mutant: str | None = None,
    faults: int = 5,
    share: float = 1.0,
    pauses: int = 1,
    keep: Path | None = None,
) -> Outcome:
    """Simulate one seed and judge it; `keep` is a folder for its logs."""
    began = time.monotonic()
    world = World(seed, faults=faults, share=share, pauses=pauses)
    with _silence(), MUTANTS[mutant].broken(seed) if mutant else nullcontext():
        history = world.run()
    if keep is not None:
        history.save(keep)
    verdict = check(history.logs)
    violations = [tuple(violation) for violation in verdict.violations]
    if world.loop.turns > MOST_TURNS * world.plan.end / 3600:
        violations.append(("no process spins", f"{world.loop.turns} turns of the event loop"))
    hours = world.plan.end / 3600
    struck, took = dict(world.struck), time.monotonic() - began
    return Outcome(seed, violations, verdict.counts, len(world.plan.faults), struck, hours, took)  # type: ignore[arg-type]


def run_seeds(
    seeds: Iterable[int], *, processes: int = 1, mutant: str | None = None, share: float = 1.0
) -> Iterator[Outcome]:
    work = ((seed, mutant, share) for seed in seeds)
    if processes == 1:
        yield from map(_one, work)
        return
    with multiprocessing.get_context("spawn").Pool(processes, maxtasksperchild=200) as pool:
        # A pool takes all its work at once: what comes may be bounded by time.
        while some := list(islice(work, _AT_ONCE * processes)):
            yield from pool.imap_unordered(_one, some)


def replay(seed: int, share: float = 1.0) -> str:
    """The command that shows this seed again."""
    return f"python -m chaos replay {seed}" + (f" --share {share:g}" if share != 1.0 else "")


class Summary:
    """What many seeds came to."""

    def __init__(self) -> None:
        self.seeds = 0
        self.simulated_hours = 0.0
        self.counts: Counter[str] = Counter()
        self.fewest_runs: int | None = None
        """What the smallest of the seeds had."""
        self.planned = 0
        self.struck: Counter[str] = Counter()
        self.failed: list[Outcome] = []

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.simulated_hours += outcome.hours
        self.counts.update(outcome.counts)
        runs = outcome.counts["runs"]
        self.fewest_runs = runs if self.fewest_runs is None else min(self.fewest_runs, runs)
        self.planned += outcome.planned
        self.struck.update(outcome.struck)
        if outcome.violations:
            self.failed.append(outcome)

    def as_record(self) -> dict[str, object]:
        return {
            "seeds": self.seeds,
            "simulated hours": round(self.simulated_hours, 1),
            "counts": dict(self.counts),
            "fewest runs": self.fewest_runs,
            "planned": self.planned,
            "struck": dict(self.struck),
            "failed seeds": [outcome.seed for outcome in self.failed],
        }


@contextmanager
def _silence() -> Iterator[None]:
    """What the product logs about faults is no news here."""
    logger = logging.getLogger("duetime")
    level = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        logger.setLevel(level)


def _one(work: tuple[int, str | None, float]) -> Outcome:
    seed, mutant, share = work
    return run_seed(seed, mutant=mutant, share=share)
