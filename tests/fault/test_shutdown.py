"""SIGTERM under load: no attempt lost, no run completed twice, and the process ends within its grace period."""

import signal
from time import monotonic

from tests.support.fleet import Fleet
from tests.support.waiting import eventually


async def test_sigterm_under_load_loses_nothing(fleet: Fleet) -> None:
    fleet.server()
    batch = [{"seconds": number % 7 / 20} for number in range(1_500)]
    await fleet.submit("hold", batch)
    first = fleet.worker(slots=60, grace="20s")
    await eventually(_some(fleet, 200), what=fleet.tails)
    first.send(signal.SIGTERM)
    began = monotonic()
    assert await first.ended(within=25) == 0, first.output()
    assert monotonic() - began < 20
    assert "stopped" in first.output()
    left = await fleet.value("select count(*) from duetime.runs where worker_id is not null")
    assert left == 0
    fleet.worker(slots=60)
    await fleet.ended(1_500)
    rows = await fleet.fetch("select distinct attempt_state, end_state, attempt, lost from duetime.history")
    assert [tuple(row) for row in rows] == [(1, 4, 1, 0)]
    rows = await fleet.fetch("select count(*), count(distinct run_id) from effects where what = 'end'")
    assert tuple(rows[0]) == (1_500, 1_500)


async def test_what_outlasts_the_grace_period_is_handed_back_unspent(fleet: Fleet) -> None:
    fleet.server()
    await fleet.submit("hold", [{"seconds": 3600}] * 10)
    first = fleet.worker(slots=10, grace="500ms")
    await eventually(_some(fleet, 10), what=fleet.tails)
    first.send(signal.SIGTERM)
    assert await first.ended(within=15) == 0, first.output()
    rows = await fleet.fetch("select worker_id, attempt, lost, fence from duetime.runs")
    assert [tuple(row) for row in rows] == [(None, 0, 0, 1)] * 10
    assert await fleet.value("select count(*) from duetime.history") == 0


async def test_a_second_signal_stops_at_once(fleet: Fleet) -> None:
    await fleet.submit("hold", [{"seconds": 3600}])
    first = fleet.worker(grace="1h")
    await eventually(_some(fleet, 1), what=fleet.tails)
    first.send(signal.SIGTERM)
    await eventually(lambda: "to finish" in first.output(), what=first.output())
    first.send(signal.SIGTERM)
    assert await first.ended(within=15) == 0, first.output()
    rows = await fleet.fetch("select worker_id, attempt, lost from duetime.runs")
    assert [tuple(row) for row in rows] == [(None, 0, 0)]


def _some(fleet: Fleet, count: int):  # type: ignore[no-untyped-def]
    async def begun() -> bool:
        return await fleet.effects("begin") >= count

    return begun
