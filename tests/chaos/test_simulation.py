"""A slice of the simulation, a quarter of an hour each: seeds that hold, and mutants that are caught.

`python -m chaos simulate` and `python -m chaos mutants` run whole hours, and many of them.
"""

import json

import pytest

from chaos.mutants import MUTANTS
from chaos.simulation.seeds import replay, run_seed
from chaos.simulation.world import World

CAUGHT_FROM = {
    "acknowledge-before-commit": 3,
    "drop-one-in-a-thousand": 8,
    "no-fence": 19,
    "fire-twice": 1,
    "leak-a-slot": 1,
    "fire-early": 1,
    "never-reap": 4,
}
"""A seed that catches each, or nearly: which one does changes whenever anything takes its turn a moment earlier."""
TRIES = 12
SHARE = 0.25


@pytest.mark.parametrize("seed", [1, 2, 3, 38])
def test_no_promise_is_broken(seed: int) -> None:
    outcome = run_seed(seed, share=SHARE)
    assert outcome.violations == [], replay(seed, SHARE)
    assert outcome.counts["runs"] > 100
    assert sum(outcome.struck.values()) == 5


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_promise_is_noticed(mutant: str) -> None:
    first = CAUGHT_FROM[mutant]
    assert any(run_seed(seed, mutant=mutant, share=SHARE).violations for seed in range(first, first + TRIES))


def test_a_seed_without_faults_begins_nothing_twice() -> None:
    outcome = run_seed(7, faults=0, share=SHARE)
    assert outcome.violations == []
    assert outcome.counts["begun again"] == 0


def test_the_same_seed_is_the_same_history() -> None:
    first, second = (json.dumps(World(5, share=SHARE).run().logs) for _ in range(2))
    assert first == second


def test_an_edit_after_the_clock_was_put_back_repeats_no_occurrence() -> None:
    """A whole hour that once broke a promise: a run that had ended was fired again, and completed twice."""
    assert run_seed(308).violations == [], replay(308)
