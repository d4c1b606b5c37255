"""The simulation notices every mutant: a product that breaks one promise on purpose."""

import pytest

from chaos.mutants import MUTANTS, SIMULATED
from chaos.simulation.seeds import run_seed

CAUGHT_FROM = {
    "acknowledge-before-commit": 2,
    "drop-one-in-a-thousand": 8,
    "no-fence": 9,
    "fire-twice": 1,
    "leak-a-slot": 1,
    "fire-early": 1,
    "never-reap": 2,
    "never-sweep": 1,
    "never-compare": 1,
    "forget-an-end": 1,
    "follow-twice": 1,
    "wait-for-none": 1,
    "leak-a-permit": 4,
    "ignore-a-limit": 1,
    "trust-the-first-look": 37,
    "wait-for-the-clock": 21,
}
"""A seed that catches each, or nearly: which one does changes whenever anything takes its turn a moment earlier."""
TRIES = 12
SHARE = 0.25


@pytest.mark.parametrize("mutant", SIMULATED)
def test_a_broken_promise_is_noticed(mutant: str) -> None:
    seeds = range(CAUGHT_FROM[mutant], CAUGHT_FROM[mutant] + TRIES)
    assert any(MUTANTS[mutant].noticed_by(run_seed(seed, mutant=mutant, share=SHARE).violations) for seed in seeds)
