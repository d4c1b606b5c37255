"""The load of queues, for autoscalers: each reading bounded, and honest about it."""

from datetime import timedelta

import pytest

from duetime.model.demand import Activity, QueueActivity, due_runs
from duetime.model.schedule import Cron, Every, Once
from duetime.model.tenant import TenantChange, TenantLimits, TenantState
from duetime.store.protocol.store import Store
from duetime.store.shared import demand
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import Time

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
HERD = 300


async def counts(
    store: Store, queue: str = "default", tenant_id: int = TENANT
) -> tuple[dict[int, int], tuple[str, ...]]:
    """What becomes due by the minute, for ten minutes."""
    ahead = await store.demand.queue_ahead(TENANT, queue, await store.now() - MINUTE, MINUTE, 10)
    found = due_runs(await store.demand.coming(10 * MINUTE), ahead, TENANT, queue, MINUTE, 10)
    return {number: count for number, count in enumerate(found.counts) if count}, found.notes


async def test_what_runs_and_what_ended_by_tenant_and_queue(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await submit(store, job(), job(), job(), job(queue="mail"))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    runs = await worker.claim()
    time.advance(seconds=10)
    await worker.succeed(*runs[:2])
    found = await store.demand.activity(MINUTE)
    assert (found.now, found.since, found.whole) == (time.now, time.now - MINUTE, True)
    total = sum(each.running for each in found.queues.values())
    assert (total, sum(each.ended for each in found.queues.values())) == (3, 2)
    assert sum(each.arrived for each in found.queues.values()) == 5, "each run arrived once, wherever it is now"
    assert sum(each.unplanned for each in found.queues.values()) == 5
    assert found.queues.keys() == {(TENANT, "default"), (TENANT, "mail"), (STRANGER, "default")}
    assert sum(each.busy for each in found.queues.values()) == pytest.approx(20.0)
    time.advance(minutes=5)
    later = await store.demand.activity(MINUTE)
    assert sum(each.ended for each in later.queues.values()) == sum(each.arrived for each in later.queues.values()) == 0
    assert sum(each.running for each in later.queues.values()) == 3


async def test_a_retry_arrives_once(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await submit(store, job())
    time.advance(seconds=50)
    await worker.retry(await worker.claim_one(), 20)
    time.advance(seconds=30)
    await worker.succeed(await worker.claim_one())
    found = (await store.demand.activity(MINUTE)).queues[TENANT, "default"]
    assert found == QueueActivity(running=0, ended=1, attempts=2, busy=0.0, arrived=0), "it was due 80 seconds ago"


async def test_activity_says_how_far_back_it_was_read(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetime.store.sqlite.recent._ROWS", 20)
    monkeypatch.setattr("duetime.store.postgres.recent._BLOCKS", 2)  # the last one may have just begun
    worker = await hand(store, HOUR)
    for _ in range(20):
        await submit(store, *(job() for _ in range(10)))
        await worker.succeed(*await worker.claim())
        time.advance(seconds=1)
    found: Activity = await store.demand.activity(HOUR)
    assert time.now - HOUR < found.since <= time.now
    ended = found.queues[TENANT, "default"].ended
    assert 0 < ended < 200
    assert found.rate(ended) == pytest.approx(10, rel=0.6)


async def test_what_waits_and_what_comes(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    await submit(store, job(queue="mail"))
    await worker.retry(await worker.claim_one(), 92)
    await submit(store, job(), job(), job(Once(delay=timedelta(seconds=5))))
    time.advance(seconds=2)
    found = await store.demand.queue_ahead(TENANT, "default", time.now - SECOND, SECOND, 60)
    assert (found.waiting, found.arrived, found.oldest, found.whole) == (2, 0, time.now - 2 * SECOND, True)
    assert found.made == {3: 1}
    mail = await store.demand.queue_ahead(TENANT, "mail", time.now, SECOND, 120)
    assert (mail.waiting, mail.oldest, mail.made) == (0, None, {90: 1}), "a retry needs a worker too"
    nothing = await store.demand.queue_ahead(STRANGER, "default", time.now, SECOND, 60)
    assert (nothing.waiting, nothing.made) == (0, {})


async def test_counts_of_waiting_runs_stop_at_a_bound(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demand, "MOST_WAITING", 5)
    await submit(store, *(job() for _ in range(9)))
    found = await store.demand.queue_ahead(TENANT, "default", time.now, SECOND, 60)
    assert (found.waiting, found.whole) == (5, False)


async def test_the_depths_of_lanes(store: Store, time: Time) -> None:
    await submit(store, job(), job(), job(task="count"), job(Once(delay=timedelta(seconds=5)), task="later"))
    time.advance(seconds=2)
    await submit(store, job())
    lanes = {lane.id: lane.key.task for lane in await store.claims.lanes()}
    found = await store.demand.lane_depths(list(lanes), time.now - SECOND, 2)
    assert {lanes[each.lane_id]: (each.runs, each.ready_at) for each in found} == {
        "greet": (2, time.now - 2 * SECOND),
        "count": (1, time.now - 2 * SECOND),
    }
    assert sum(each.arrived for each in await store.demand.lane_depths(list(lanes), time.now - SECOND, 100)) == 1
    assert await store.demand.lane_depths([], time.now, 100) == []


async def test_jobs_that_fire_soon_are_counted_as_they_fire(store: Store, time: Time) -> None:
    await submit(
        store,
        job(Cron("*/2 * * * *")),
        job(Every(timedelta(minutes=3))),
        job(Once(delay=timedelta(minutes=5, seconds=30))),
        job(Once(delay=timedelta(minutes=11))),
        job(Every(MINUTE), queue="mail"),
    )
    paused = await submit(store, job(Every(MINUTE)))
    await store.control.pause_job(TENANT, paused.job_id)
    await submit(store, job(Every(MINUTE), tenant_id=STRANGER), tenant_id=STRANGER)
    found, notes = await counts(store)
    assert (found, notes) == ({2: 1, 3: 1, 4: 1, 5: 1, 6: 2, 8: 1, 9: 1}, ())
    assert (await counts(store, "mail"))[0] == dict.fromkeys(range(1, 10), 1)


async def test_a_herd_among_many_jobs_is_seen_ahead(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever else is stored: only the cursors of the time ahead are read, and of a crowd a sample."""
    monkeypatch.setattr(demand, "SAMPLED", 100)
    monkeypatch.setattr(demand, "FEW", 20)
    await submit(store, *(job(Once(delay=HOUR)) for _ in range(50)))
    await submit(store, *(job(Once(delay=timedelta(minutes=5))) for _ in range(HERD)))
    await submit(store, job(Once(delay=timedelta(minutes=8)), queue="mail"))
    for _ in range(5):
        coming = await store.demand.coming(10 * MINUTE)
        read = sum(map(len, coming.sampled.values()))
        assert 40 < read < 180 and coming.weight == pytest.approx(HERD / read)
    found, notes = await counts(store)
    assert found == {5: HERD}
    assert "sample" in notes[0]
    assert await counts(store, "mail") == ({8: 1}, ()), "the few are read one by one"


async def test_a_herd_is_not_counted_twice_while_it_is_fired(store: Store, time: Time) -> None:
    """The jobs may have been read before they fired, and the runs after it."""
    await submit(store, *(job(Once(delay=timedelta(minutes=5))) for _ in range(30)))
    time.advance(minutes=4, seconds=50)
    before = await store.demand.coming(10 * MINUTE)
    await fire(store, 10)
    for fired in (10, 20):
        ahead = await store.demand.queue_ahead(TENANT, "default", time.now, SECOND, 60)
        assert ahead.made == {10: fired}
        assert due_runs(before, ahead, TENANT, "default", SECOND, 60).counts == [0] * 10 + [30] + [0] * 49
        await fire(store, 10)
    assert (await counts(store))[0] == {0: 30}
    time.advance(seconds=12)
    ahead = await store.demand.queue_ahead(TENANT, "default", time.now - MINUTE, SECOND, 60)
    assert (ahead.waiting, ahead.arrived, ahead.unplanned) == (30, 30, 0), "a schedule foretold them"


async def test_fires_of_a_tenant_are_held_to_its_rate(store: Store, time: Time) -> None:
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(fires_per_second=0.5)))
    await submit(store, *(job(Once(delay=timedelta(minutes=5))) for _ in range(HERD)))
    found, notes = await counts(store)
    assert found == {5: 188, 6: 30, 7: 30, 8: 30, 9: 22}, "it fires every two seconds; the first may come early"
    assert notes == ("fires of all queues together wait for the tenant's rate of 0.5 per second",)
    await store.tenants.update_tenant(TENANT, TenantChange(state=TenantState.SUSPENDED))
    assert await counts(store) == ({}, ())


async def test_a_bound_on_cursors_is_reported(store: Store, time: Time, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demand, "MOST_AHEAD", 5)
    for minute in range(1, 9):
        await submit(store, job(Once(delay=minute * MINUTE)))
    found = await store.demand.coming(10 * MINUTE)
    assert found.horizon is not None and found.horizon < time.now + 6 * MINUTE
    assert sum(map(len, found.jobs.values())) == 5
