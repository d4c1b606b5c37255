"""The model: it obeys what must hold of any machine, and is as fast as what it was fitted on."""

import pytest

from bench.model.fitting import Measured, fit
from bench.model.simulation import Costs, Layout, simulate

COSTS = Costs(worker=20.0, claim=8.0, complete=10.0, statement=0.0, flush=200.0)


def test_nobody_is_faster_than_the_cores_allow() -> None:
    for workers in (1, 2, 4, 8):
        outcome = simulate(COSTS, Layout(workers, 2))
        assert outcome.rate <= 2e6 / 38.0 * 1.01
        assert outcome.worker_cores <= 2.01


def test_one_process_is_no_faster_than_its_thread() -> None:
    assert simulate(COSTS, Layout(1, 64)).rate <= 1e6 / 20.0 * 1.01


def test_processes_with_cores_of_their_own_add_up() -> None:
    one, four = simulate(COSTS, Layout(1, 16, 64)).rate, simulate(COSTS, Layout(4, 16, 64)).rate
    assert 3.0 * one < four <= 4.05 * one


def test_the_log_bounds_everybody() -> None:
    slow = simulate(COSTS, Layout(8, 8, 64, log_bandwidth=5e6, log_bytes=1_000.0)).rate
    assert slow <= 5_000 * 1.05  # a claim and a completion each count a run's bytes once; half of them are claims


def test_a_dearer_run_is_a_slower_one() -> None:
    dear = Costs(worker=40.0, claim=16.0, complete=20.0, statement=0.0, flush=200.0)
    assert simulate(dear, Layout(2, 2)).rate < simulate(COSTS, Layout(2, 2)).rate


@pytest.mark.parametrize("rate", [15_000.0, 25_000.0, 32_000.0])
def test_it_is_as_fast_as_what_it_was_fitted_on(rate: float) -> None:
    costs = fit(Measured(worker=20.0, database=16.0, in_statements=13.0, rate=rate, cores=2))
    assert simulate(costs, Layout(1, 2)).rate == pytest.approx(rate, rel=0.03)
    assert costs.claim + costs.complete + costs.background == pytest.approx(16.0)
