"""What counts as growth, and what a load has to show."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from chaos.real.load import Load, as_record
from chaos.real.overload import CAPACITY, QUOTA, TIMES, Answers, Overload, Served, came_of_it, meaning
from chaos.real.sampling import Attempt, grown

NEIGHBOUR = Served(taken=60, lag={"p95": 0.2})
GOOD = Overload(
    seconds=60.0,
    offered=TIMES * CAPACITY,
    most_stored=QUOTA,
    crowd=Served(taken=2 * QUOTA, refused={"403 quota_exceeded": 30_000}),
    neighbour=NEIGHBOUR,
    done_during=0.95 * CAPACITY,
    normal_after=30.0,
)


@pytest.mark.parametrize(
    ("name", "values", "flat"),
    [
        ("worker-0 memory, MB", [50.0] * 10 + [60.0] * 30, True),
        ("worker-0 memory, MB", [50.0 + place for place in range(40)], False),
        ("worker-0 open, files", [20.0] * 30 + [21.0] * 10, True),
        ("worker-0 open, files", [20.0] * 30 + [30.0] * 10, False),
        ("table claims, kB", [16.0] * 20 + [64.0] * 20, True),
        ("table runs, kB", [8000.0] * 20 + [9000.0] * 20, False),
        ("table runs, kB", [400.0, 1400.0, 2400.0, 900.0] * 7 + [2400.0] * 12, True),
        ("database, connections", [10.0, 10.0], True),
    ],
)
def test_flat_means_the_last_quarter_is_as_the_second(name: str, values: list[float], flat: bool) -> None:
    assert (grown({name: values}) == []) is flat


def test_what_a_load_has_to_show() -> None:
    held = Load(60.0, 100.0, held=True, rush_before=1000.0, rush_after=800.0, overload=GOOD)
    assert held.broken() == []
    held.rush_after = 700.0
    assert len(held.broken()) == 1
    held.overload = replace(GOOD, done_during=20.0, normal_after=90.0)
    assert len(held.broken()) == 3
    growing = Load(60.0, 100.0, held=False, series={"table runs, kB": [float(n) for n in range(1000, 9000, 100)]})
    growing.overload = GOOD
    assert growing.broken() == ["not flat: table runs, kB: 4900.0 → 8900.0"]
    assert as_record(growing)["overload"]["neighbour"]["lag"] == {"p95": 0.2}


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"crowd": Served(taken=50_000)}, "nothing was refused"),
        ({"offered": 2 * CAPACITY}, "320.0 jobs/s were offered"),
        ({"neighbour": Served()}, "no neighbour"),
        ({"crowd": replace(GOOD.crowd, failed={"500 internal_error": 1})}, "neither taken nor refused"),
        ({"neighbour": replace(NEIGHBOUR, failed={"0 TimeoutError": 1})}, "neither taken nor refused"),
        ({"most_stored": 2 * QUOTA}, f"a quota of {QUOTA} jobs let {2 * QUOTA} in"),
        ({"done_during": 0.7 * CAPACITY}, "collapsed: 112.0 runs/s of 160.0"),
        ({"deaths": 1}, "collapsed: 1 processes ended"),
        ({"not_done": 1}, "1 jobs were taken and not done"),
        ({"normal_after": 61.0}, "normal again only 61.0 s after"),
        ({"neighbour": replace(NEIGHBOUR, refused={"503 overloaded": 1})}, "of the neighbour were refused"),
        ({"neighbour": replace(NEIGHBOUR, lag={"p95": 1.5})}, "the neighbour's p95 lag was 1.5 s"),
    ],
)
def test_what_an_overload_must_not_do(changes: dict[str, Any], told: str) -> None:
    (text,) = replace(GOOD, **changes).broken()
    assert told in text


@pytest.mark.parametrize(
    ("status", "code", "means"),
    [
        (200, "", "taken"),
        (201, "", "taken"),
        (403, "quota_exceeded", "refused"),
        (429, "rate_limited", "refused"),
        (503, "overloaded", "refused"),
        (403, "forbidden", "failed"),
        (422, "invalid_input", "failed"),
        (500, "internal_error", "failed"),
        (0, "TimeoutError", "failed"),
    ],
)
def test_what_an_answer_means(status: int, code: str, means: str) -> None:
    assert meaning(status, code) == means
    answers = Answers()
    answers.add(["a", "b"], status, code)
    kept = {"taken": answers.taken, "refused": answers.refused, "failed": answers.failed}
    assert [name for name, found in kept.items() if found] == [means]
    assert (answers.refused_at > 0.0) is (means == "refused")


def test_what_came_of_an_overload() -> None:
    """Ten seconds of it, of which the slots have one to fill up; then what waits is done, and lag is normal again."""
    over = Answers(asked=50, taken={"o1", "o2", "lost"}, refused=Counter({"403 quota_exceeded": 47}), waits=[0.1])
    calm = Answers(asked=2, taken={"c1"}, failed=Counter({"500 internal_error": 1}), refused_at=112.0)
    beside = Answers(asked=1, taken={"b1"}, waits=[0.2])
    attempts = [
        Attempt("b1", 102.0, 0.3, done_at=102.0),
        Attempt("o1", 104.0, 3.0, done_at=104.5),
        Attempt("o2", 115.0, 9.0, done_at=115.5),
        Attempt("lost", 116.0, 0.5),
        Attempt("c1", 117.0, 0.1, done_at=117.0),
    ]
    found = came_of_it(attempts, over, calm, beside, began=100.0, ended=110.0)
    assert (found.seconds, found.offered, found.done_during) == (10.0, 5.0, 0.1)
    assert (found.not_done, found.normal_after) == (1, 5.0)
    assert found.crowd.refused == {"403 quota_exceeded": 47}
    assert found.crowd.failed == {"500 internal_error": 1}
    assert (found.crowd.taken, found.crowd.lag["p99"], found.crowd.answered_within["p50"]) == (3, 9.0, 0.1)
    assert (found.neighbour.taken, found.neighbour.lag["p95"]) == (1, 0.3)


def test_being_refused_is_not_normal_yet() -> None:
    found = came_of_it([], Answers(), Answers(refused_at=130.0), Answers(), began=100.0, ended=110.0)
    assert found.normal_after == 20.0
