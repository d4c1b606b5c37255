"""How far runs are trusted, going by the workers that their jobs and tasks have lost."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from duetime.model import suspicion as module
from duetime.model.lane import Lane, LaneKey, Sight, Trial
from duetime.model.suspicion import LostCount, Suspicion, pause_after

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
WORK, REST = (1, "work"), (1, "rest")


def test_pauses_double_up_to_a_minute() -> None:
    assert [pause_after(losses) for losses in (1, 2, 3, 4, 5, 6, 7, 8, 1000)] == [0, 0, 5, 10, 20, 40, 60, 60, 60]


def test_a_task_is_a_step_behind_what_is_lost_of_it() -> None:
    found = Suspicion.of(LostCount((1, str(losses)), losses, 0.0, False) for losses in range(1, 7))
    assert [found.trial(LaneKey(1, "q", 1, str(losses))) for losses in range(1, 7)] == [0, 1, 2, 3, 3, 3]
    assert found.tried(LaneKey(1, "q", 1, "3")) == LaneKey(1, "q", 1, "3", Trial.PROBED)
    assert found.trial(LaneKey(1, "q", 1, "2", Trial.ALONE)) == Trial.ALONE


def test_what_a_job_has_lost_says_nothing_of_others_of_its_task() -> None:
    found = Suspicion.of([LostCount(WORK, 9, 0.0, True)])
    assert found.trial(LaneKey(1, "q", 1, "work")) == Trial.NONE


def test_what_is_tried_alone_waits_for_the_longest_pause_of_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    passed = 1000.0
    monkeypatch.setattr(module, "monotonic", lambda: passed)
    found = Suspicion.of(
        [LostCount(WORK, 3, 1.0, False), LostCount(WORK, 6, 10.0, True), LostCount(REST, 3, 6.0, True)]
    )
    lanes = {
        number: Lane(number, LaneKey(1, "q", 1, task, trial))
        for number, (task, trial) in enumerate(
            [("work", Trial.ALONE), ("rest", Trial.ALONE), ("rest", Trial.PROBED), ("else", Trial.ALONE)]
        )
    }
    ready = [NOW - timedelta(seconds=100), NOW - timedelta(seconds=100), NOW, NOW + timedelta(seconds=1)]
    sights = [Sight(number, (moment,), (uuid4(),)) for number, moment in enumerate(ready)]
    assert [(sight.lane_id, waited) for sight, waited in found.alone(sights, lanes, NOW)] == [(1, 1.0)]
    passed += 30
    assert [(sight.lane_id, waited) for sight, waited in found.alone(sights, lanes, NOW)] == [(1, 31.0), (0, 0.0)]
