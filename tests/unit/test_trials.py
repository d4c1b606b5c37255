"""How many runs that are not trusted a worker takes at once."""

from uuid import UUID, uuid4

import pytest

from duetime.model.lane import LaneKey, Trial
from duetime.worker import trials as module
from duetime.worker.trials import Trials

HOLD, POISON = (1, "hold"), (1, "poison")


class Bench:
    def __init__(self) -> None:
        self.trials = Trials()
        self.passed = 1000.0

    def start(self, trial: Trial, task: str = "hold") -> UUID:
        run_id = uuid4()
        self.trials.started(run_id, LaneKey(1, "q", 1, task, trial))
        return run_id

    def start_all(self, trial: Trial, task: str, left: int) -> list[UUID]:
        """As many as there is room for."""
        return [self.start(trial, task) for _ in range(self.trials.room().take(trial, (1, task), left))]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    bench = Bench()
    monkeypatch.setattr(module, "monotonic", lambda: bench.passed)
    return bench


def test_forty_runs_that_were_lost_twice_take_six_rounds(bench: Bench) -> None:
    left, rounds = 40, []
    while left:
        started = bench.start_all(Trial.PROBED, "hold", left)
        rounds.append(len(started))
        for run_id in started:
            bench.trials.ended(run_id)
        left -= len(started)
    assert rounds == [1, 2, 4, 8, 16, 9]


def test_a_task_proves_itself_with_no_other_that_is_probed(bench: Bench) -> None:
    first = bench.start(Trial.PROBED)
    assert bench.trials.room().take(Trial.PROBED, HOLD, 5) == 0
    bench.trials.ended(first)
    bench.start_all(Trial.PROBED, "hold", 1)
    room = bench.trials.room()
    assert room.take(Trial.PROBED, POISON, 5) == 0
    assert room.take(Trial.PROBED, HOLD, 5) == 1
    bench.passed += 5
    room = bench.trials.room()
    assert room.take(Trial.PROBED, POISON, 5) == 1
    assert room.take(Trial.PROBED, HOLD, 5) == 0, "not together with one that has to prove itself"
    bench.start(Trial.PROBED, "poison")
    assert bench.trials.room().take(Trial.PROBED, HOLD, 5) == 0


def test_suspects_start_a_few_at_a_time_and_more_as_they_survive(bench: Bench) -> None:
    assert len(bench.start_all(Trial.SUSPECT, "hold", 100)) == 4
    bench.passed += 0.25
    assert len(bench.start_all(Trial.SUSPECT, "poison", 100)) == 8


def test_a_run_that_is_tried_alone_keeps_everything_else_out_until_it_has_survived(bench: Bench) -> None:
    assert not bench.trials.alone
    run_id = bench.start(Trial.ALONE)
    assert bench.trials.alone
    bench.passed += 5
    assert not bench.trials.alone
    bench.start(Trial.ALONE)
    bench.trials.ended(run_id)
    assert bench.trials.alone
