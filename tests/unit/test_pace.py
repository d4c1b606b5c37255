"""How many runs are claimed ahead, and what slots make of it."""

from duetime.worker.pace import Pace
from duetime.worker.slots import Slots
from duetime.worker.task import Place


def test_as_many_as_are_done_in_a_moment() -> None:
    pace = Pace(2)
    assert [pace.ahead(1 / 1024) for _ in range(15)] == [0] * 15, "it is too early to say"
    assert pace.ahead(1 / 1024) == 40, "a moment is 20 ms, and there are two"
    for _ in range(16):
        found = pace.ahead(1 / 8192)
    assert found == 200, "however short they are"


def test_none_where_one_took_longer() -> None:
    pace = Pace(2)
    for _ in range(16):
        pace.ahead(1 / 1024)
    assert pace.ahead(0.5) == 0
    assert [pace.ahead(1 / 1024) for _ in range(15)] == [0] * 15
    assert pace.ahead(1 / 1024) == 40


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
