"""The model: it obeys what must hold of any machine, and is as fast as what it was fitted on."""

import msgspec
import pytest

from bench.cost import function_of
from bench.model.fitting import CLAIM_SHARE, Measured, fit
from bench.model.predicting import NETWORK_TRIP, _claim_share, breaks_first, takes
from bench.model.simulation import Costs, Layout, simulate

COST = {f"{step}: WAL": 800.0 for step in ("run, async", "submit, 1,000 at a time")} | {
    "submit, 1,000 at a time: database": 10.0,
    "submit, 1,000 at a time: client": 26.0,
}
COSTS = Costs(worker=20.0, claim=8.0, complete=10.0, statement=0.0, flush=200.0)


def test_nobody_is_faster_than_the_cores_allow() -> None:
    for workers in (1, 2, 4, 8):
        outcome = simulate(COSTS, Layout(workers, 2))
        assert outcome.rate <= 2e6 / 38.0 * 1.01
        assert outcome.worker_cores <= 2.01


def test_one_process_is_no_faster_than_its_thread() -> None:
    assert simulate(COSTS, Layout(1, 64)).rate <= 1e6 / 20.0 * 1.01


def test_processes_with_cores_of_their_own_add_up() -> None:
    one, four = (simulate(COSTS, Layout(workers, 16, database_cores=64)).rate for workers in (1, 4))
    assert 3.0 * one < four <= 4.05 * one


def test_the_log_bounds_everybody() -> None:
    slow = simulate(COSTS, Layout(8, 8, database_cores=64, log_bandwidth=5e6, log_bytes=1_000.0)).rate
    assert slow <= 5_000 * 1.05


def test_a_dearer_run_is_a_slower_one() -> None:
    dear = Costs(worker=40.0, claim=16.0, complete=20.0, statement=0.0, flush=200.0)
    assert simulate(dear, Layout(2, 2)).rate < simulate(COSTS, Layout(2, 2)).rate


def test_processes_that_wait_for_cores_make_each_other_dearer() -> None:
    crowded = msgspec.structs.replace(COSTS, crowding=0.04)
    fought_over = simulate(crowded, Layout(4, 2))
    assert fought_over.rate < 0.95 * simulate(COSTS, Layout(4, 2)).rate
    assert fought_over.worker_cores <= 2.01
    assert simulate(crowded, Layout(1, 4)).rate == simulate(COSTS, Layout(1, 4)).rate


def test_workers_of_one_lane_pass_by_what_the_others_took() -> None:
    dear = msgspec.structs.replace(COSTS, skip=10.0, pass_by=10.0)
    assert simulate(dear, Layout(1, 2)).rate == simulate(COSTS, Layout(1, 2)).rate
    assert simulate(dear, Layout(2, 2)).rate < 0.9 * simulate(COSTS, Layout(2, 2)).rate


def test_workers_of_other_lanes_are_not_passed_by() -> None:
    dear = msgspec.structs.replace(COSTS, skip=10.0, pass_by=10.0)
    apart, free = Layout(2, 4, lanes=2), msgspec.structs.replace(COSTS, skip=0.0, pass_by=0.0)
    assert simulate(dear, apart).rate == simulate(free, apart).rate > simulate(dear, Layout(2, 4)).rate


def test_what_is_wanted_takes_lanes_and_a_log_that_is_fast_enough() -> None:
    found = takes(COSTS, COST)
    assert found["lanes with workers of their own"] >= 1
    assert found["log bandwidth, MB/s at least"] >= found["WAL MB/s"] == 80.0


def test_what_is_wanted_takes_cores_for_those_who_submit() -> None:
    found = takes(COSTS, COST)
    assert found["cores busy of those who submit"] == pytest.approx(50_000 * 26.0 / 1e6)
    assert found["processes that submit"] == 2  # no core busier than 70 %


def test_a_database_on_a_machine_of_its_own_is_behind_a_network() -> None:
    (one, *_), far = breaks_first(COSTS, 800.0), msgspec.structs.replace(COSTS, trip=NETWORK_TRIP)
    assert one["runs/s"] == simulate(far, Layout(1, 1, database_cores=16), seconds=1.0).rate
    assert one["runs/s"] < simulate(COSTS, Layout(1, 1, database_cores=16), seconds=1.0).rate


def test_claiming_and_completing_share_by_what_their_statements_took() -> None:
    took = {"select id": {"µs": 3.0, "does": "claim"}, "select": {"µs": 9.0, "does": "succeed_runs"}}
    assert _claim_share(took) == 0.25
    assert _claim_share({}) == CLAIM_SHARE


def test_a_statement_is_known_by_its_whole_text() -> None:
    assert function_of(f"select {'column, ' * 20} duetime.stamp(due_at) from duetime.claim($1, $2)") == "claim"
    assert function_of("select duetime.succeed_runs($1)") == "succeed_runs"
    assert function_of("select 1") is None


@pytest.mark.parametrize("rate", [15_000.0, 25_000.0, 32_000.0])
def test_it_is_as_fast_as_what_it_was_fitted_on(rate: float) -> None:
    costs = fit(Measured(worker=20.0, database=16.0, sessions=13.0, rate=rate, cores=2))
    assert simulate(costs, Layout(1, 2)).rate == pytest.approx(rate, rel=0.03)
    assert costs.claim + costs.complete + costs.background == pytest.approx(16.0)
