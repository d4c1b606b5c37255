"""The figures that alerts watch: none of them is blind where many runs are, or where all of them are late."""

from datetime import timedelta

import pytest

from duetime.engine.alert_figures import Readings
from duetime.ids import new_id
from duetime.model.alert import AlertRule, Figure
from duetime.model.notification import QUEUE
from duetime.model.schedule import Once
from duetime.model.target import EMAIL, GRPC, HTTP, SHELL
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, STRANGER, TENANT, hand, job, reap, submit
from tests.contract.worlds import Time


async def reading(store: Store, figure: Figure, threshold: float = 10, queue: str | None = None) -> float | None:
    await store.notifications.put_alert(TENANT, AlertRule("a", figure, threshold, queue=queue))
    (alert,) = await store.notifications.alerts(TENANT)
    return (await Readings(store, await store.clocks.clock_seen()).of(alert)).value


async def flow(store: Store, time: Time, seconds: int, rate: int) -> None:
    """So many runs come due each second, and none of them is started. What they are due at is said, as ids begin with
    it: those that are drawn go by another clock here."""
    for _ in range(seconds):
        await submit(store, *(job(Once(time.now)) for _ in range(rate)))
        time.advance(seconds=1)


async def test_lag_where_many_are_due_every_second(store: Store, time: Time) -> None:
    await flow(store, time, 60, 40)
    lag = await reading(store, Figure.LAG_P95)
    assert lag is not None and 50 <= lag <= 60, "the newest thousand have waited for 25 s at the most"


async def test_lag_where_more_are_due_than_a_page_reads(store: Store, time: Time) -> None:
    await flow(store, time, 240, 20)
    lag = await reading(store, Figure.LAG_P95)
    assert lag is not None and 205 <= lag <= 240, "the newest three thousand have waited for 150 s at the most"


async def test_lag_of_what_waits_for_longer_than_the_window(store: Store, time: Time) -> None:
    assert await reading(store, Figure.LAG_P95) == 0
    await submit(store, *(job() for _ in range(10)))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    time.advance(hours=1)
    assert await reading(store, Figure.LAG_P95) == 3600
    assert await reading(store, Figure.LAG_P95, queue="default") == 3600
    assert await reading(store, Figure.LAG_P95, queue="mail") == 0
    await store.queues.pause_queue(TENANT, "default")
    assert await reading(store, Figure.LAG_P95) == 0, "that it waits is meant"


async def test_a_retry_that_waits_for_longer_than_the_window_is_no_lag(store: Store, time: Time) -> None:
    """Its run has started in time; how long it waits for another attempt is not how late it began."""
    worker = await hand(store, timedelta(days=1))
    await submit(store, *(job() for _ in range(3)))
    tried, snoozed, _ = await worker.claim()
    await worker.retry(tried)
    await worker.snooze(snoozed)
    await store.leases.leave(worker.id)
    assert await reap(store) == 1
    time.advance(hours=1)
    assert await reading(store, Figure.LAG_P95) == 0
    await submit(store, job())
    time.advance(minutes=10)
    assert await reading(store, Figure.LAG_P95) == 600


async def test_lag_of_runs_that_started_in_time(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    for _ in range(30):
        await submit(store, job())
        time.advance(seconds=2)
        await worker.succeed(await worker.claim_one())
    assert await reading(store, Figure.LAG_P95) == 2


async def test_the_backlog_is_what_could_start_now(store: Store, time: Time) -> None:
    await submit(store, *(job() for _ in range(5)), job(queue="mail"), job(queue=QUEUE))
    await submit(store, job(Once(time.now + timedelta(hours=1))), job(task="count"))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    worker = await hand(store, timedelta(days=1))
    for run in await worker.claim(1):
        await worker.retry(run, seconds=60)
    assert await reading(store, Figure.BACKLOG) == 4
    assert await reading(store, Figure.BACKLOG, queue="mail") == 0
    time.advance(minutes=2)
    assert await reading(store, Figure.BACKLOG) == 7
    assert await reading(store, Figure.BACKLOG, queue="mail") == 1


async def test_the_backlog_is_counted_beyond_any_threshold(store: Store) -> None:
    for _ in range(11):
        await submit(store, *(job() for _ in range(1000)))
    assert await reading(store, Figure.BACKLOG, threshold=10_500) == 11_000


@pytest.mark.parametrize("rate", [1, 40, 90])
async def test_runs_that_take_longer_than_before(store: Store, time: Time, rate: int) -> None:
    worker = await hand(store, timedelta(days=1))
    for seconds, times in ((1, 40), (8, 20)):
        for _ in range(times):
            await submit(store, *(job(Once(time.now)) for _ in range(rate)))
            runs = await worker.claim()
            time.advance(seconds=seconds)
            await worker.succeed(*runs)
        time.advance(seconds=600 if seconds == 1 else 0)
    assert await reading(store, Figure.DURATION) == 8


async def test_what_servers_have_for_targets_is_no_worker(store: Store) -> None:
    await store.leases.register(WorkerInfo(new_id(), "server", (HTTP, GRPC, SHELL, EMAIL), (), 500), LEASE)
    assert await reading(store, Figure.WORKERS) == 0
    assert await reading(store, Figure.FREE_SLOTS) == 0
    await store.leases.register(WorkerInfo(new_id(), "both", (HTTP, "greet"), (), 20), LEASE)
    assert await reading(store, Figure.WORKERS) == 1
    assert await reading(store, Figure.FREE_SLOTS) == 20
