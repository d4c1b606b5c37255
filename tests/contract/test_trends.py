"""Trends: minutes and hours are counted once, from what ended, on both stores alike."""

from datetime import datetime, timedelta

import pytest

from duetime.model.trends import HOUR, KEPT, MINUTE, Pace, added, percentiles, stepped
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import Time

MONTH = timedelta(days=30)


async def run(store: Store, time: Time, count: int, late: float, took: float) -> None:
    """Runs that start so late, and take so long, in seconds."""
    worker = await hand(store, timedelta(days=30))
    await submit(store, *(job() for _ in range(count)))
    time.advance(seconds=late)
    runs = await worker.claim(count)
    time.advance(seconds=took)
    await worker.succeed(*runs)


def begin(time: Time) -> datetime:
    """The next full minute."""
    time.advance(seconds=(60 - time.now.second) % 60 or 60)
    return time.now.replace(microsecond=0)


async def counted(store: Store, time: Time) -> int:
    return await store.trends.count_trends(time.now)


async def test_a_minute_is_counted_once_and_added_to_its_hour(store: Store, other: Store, time: Time) -> None:
    first = begin(time)
    await run(store, time, 10, late=2, took=0.5)
    worker = await hand(store, HOUR)
    await submit(store, job(), job())
    one, two = await worker.claim()
    await worker.fail(one)
    await worker.retry(two, 3600)
    assert await counted(store, time) == 0, "the minute is not over"
    time.advance(seconds=75)
    assert await counted(store, time) == 1
    assert await counted(other, time) == 0
    ((at, pace),) = await store.trends.trends(TENANT, MINUTE, first - HOUR)
    assert (at, pace.succeeded, pace.failed, pace.retried, pace.lost) == (first, 10, 1, 1, 0)
    lag, duration = percentiles(pace.lags), percentiles(pace.took)
    assert lag is not None and duration is not None
    assert (lag.p50, duration.p50) == (pytest.approx(2.0, rel=0.06), pytest.approx(0.5, rel=0.06))
    await run(store, time, 3, late=20, took=10)
    time.advance(seconds=75)
    assert await counted(other, time) == 1
    minutes = await store.trends.trends(TENANT, MINUTE, first)
    assert [pace.succeeded for _, pace in minutes] == [10, 3]
    hours = await store.trends.trends(TENANT, HOUR, first - HOUR)
    assert sum(pace.succeeded for _, pace in hours) == 13
    assert added(pace for _, pace in minutes) == added(pace for _, pace in hours)
    assert await store.trends.trends(STRANGER, MINUTE, first) == []


async def test_what_happened_while_no_node_counted_is_counted_for_some_minutes(store: Store, time: Time) -> None:
    first = begin(time)
    await run(store, time, 1, late=0, took=1)
    time.advance(seconds=120)
    await run(store, time, 2, late=0, took=1)
    time.advance(seconds=90)
    assert await counted(store, time) == 2
    assert [pace.succeeded for _, pace in await store.trends.trends(TENANT, MINUTE, first)] == [1, 2]


async def test_minutes_and_hours_are_pruned(store: Store, time: Time) -> None:
    first = begin(time)
    await run(store, time, 1, late=0, took=1)
    time.advance(seconds=75)
    await counted(store, time)
    time.advance(seconds=KEPT[MINUTE].total_seconds() + 60)
    await store.pruning.prune(MONTH, MONTH)
    assert await store.trends.trends(TENANT, MINUTE, first) == []
    assert len(await store.trends.trends(TENANT, HOUR, first - HOUR)) == 1
    time.advance(seconds=KEPT[HOUR].total_seconds())
    await store.pruning.prune(MONTH, MONTH)
    assert await store.trends.trends(TENANT, HOUR, first - HOUR) == []


async def test_durations_are_counted_to_five_percent(store: Store, time: Time) -> None:
    for seconds in (0, 0.0001, 0.0099, 0.0123, 0.5, 1, 59.9, 3600):
        begin(time)
        await run(store, time, 1, late=0, took=seconds)
        ended = time.now
        time.advance(seconds=75)
        await counted(store, time)
        ((_, pace),) = await store.trends.trends(TENANT, MINUTE, ended - MINUTE)
        found = percentiles(pace.took)
        assert found is not None and found.p50 == pytest.approx(seconds, rel=0.051, abs=1e-4)


def test_percentiles_of_no_one_and_steps_without_anything() -> None:
    assert percentiles({}) is None
    start = datetime.fromisoformat("2026-01-01T00:00:00+00:00")
    steps = stepped([(start + MINUTE, Pace(succeeded=2)), (start + 2 * MINUTE, Pace(failed=1))], start, HOUR, 2)
    assert [(step.at, step.pace.succeeded, step.pace.failed) for step in steps] == [(start, 2, 1), (start + HOUR, 0, 0)]
