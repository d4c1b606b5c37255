"""How many runs a worker prefetches, and what slots make of it."""

from collections.abc import Callable

import pytest

from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.worker.prefetch import Prefetch
from duetime.worker.running_attempt import Running
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.task import Place, define


def running(options: bytes | None = None) -> Running:
    claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, b"{}", options, None, None)
    return Running(claimed, define("work", lambda: None), LaneKey(1, "default", 1, "work"), Session(), 1, 10)


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[int]]:
    """What is claimed ahead, while so many end one after the other and each takes so long."""
    now = 0.0
    said: list[int] = []
    monkeypatch.setattr("duetime.worker.prefetch.monotonic", lambda: now)
    pace = Prefetch(2, 200, said.append)

    def end(count: int, seconds: float, options: bytes | None = None) -> list[int]:
        nonlocal now
        said.clear()
        for _ in range(count):
            now += seconds
            pace.ended(running(options))
        return list(said)

    return end


def test_as_many_as_are_done_in_a_moment(ahead: Callable[..., list[int]]) -> None:
    assert ahead(15, 1 / 2048) == [], "it is too early to say"
    assert ahead(1, 1 / 2048) == [40], "a moment is 20 ms"
    assert ahead(16, 1 / 16384) == [200], "however short they are"


def test_none_where_they_are_long(ahead: Callable[..., list[int]]) -> None:
    assert ahead(16, 0.5) == [0]
    assert ahead(16, 1 / 2048) == [40]


def test_none_that_may_run_only_once(ahead: Callable[..., list[int]]) -> None:
    assert ahead(15, 1 / 2048) == []
    assert ahead(2, 1 / 2048, b'{"at_most_once":true}') == [0, 0]
    assert ahead(15, 1 / 2048) == [], "it begins anew"
    assert ahead(1, 1 / 2048) == [40]


def test_time_without_runs_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    said: list[int] = []
    monkeypatch.setattr("duetime.worker.prefetch.monotonic", lambda: now)
    pace = Prefetch(2, 200, said.append)
    for _ in range(16):
        now += 60.0
        pace.busy()
        now += 1 / 2048
        pace.ended(running())
        pace.idle()
    assert said == [40]


def test_slots_that_take_more_than_they_have() -> None:
    slots = Slots({Place.PROCESS: 2}, lambda: None)
    slots.claim_ahead(Place.PROCESS, 10)
    assert slots.free[Place.PROCESS] == 12
    assert slots.idle
    slots.free[Place.PROCESS] -= 12
    assert slots.used[Place.PROCESS] == 2, "the others wait"
    assert not slots.worth_claiming()
    slots.claim_ahead(Place.PROCESS, 0)
    assert slots.free[Place.PROCESS] == -10, "nothing is claimed before those are done"
    assert not slots.worth_claiming(Place.PROCESS)
    for _ in range(12):
        slots.give_back(Place.PROCESS)
    assert slots.idle
    assert slots.free == slots.sizes
