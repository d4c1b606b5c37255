"""What tenants have used is counted once, however often it is asked, and stays when history is gone."""

from datetime import date, timedelta

import pytest

from duetime.archive.names import day_of
from duetime.model.tenant import NO_LIMITS, NewTenant
from duetime.model.usage import Usage
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import START, Time
from tests.support.old_history import add_ended

DAY = timedelta(days=1)
TODAY = START.date()


async def count(store: Store, time: Time) -> None:
    while await store.usage_counts.count_usage(time.now):
        pass


async def work(store: Store, time: Time, succeed: int, fail: int, tenant_id: int = TENANT, queue: str = "q") -> None:
    """Runs that take two seconds each, with 2 bytes of arguments and 3 of a result."""
    jobs = [job(tenant_id=tenant_id, queue=queue) for _ in range(succeed + fail)]
    await submit(store, *jobs, tenant_id=tenant_id)
    worker = await hand(store)
    runs = await worker.claim(succeed + fail)
    time.advance(seconds=2)
    await worker.succeed(*runs[:succeed], result=b"123")
    for run in runs[succeed:]:
        await worker.fail(run)
    await store.leases.leave(worker.id)


async def used(store: Store, tenant_id: int = TENANT, first: date = TODAY, last: date = TODAY) -> list[Usage]:
    return await store.usage_counts.usage_of(tenant_id, first, last, by_queue=True)


async def test_runs_seconds_and_bytes_are_counted_by_tenant_day_and_queue(store: Store, time: Time) -> None:
    acme = await store.tenants.create_tenant(NewTenant("acme", limits=NO_LIMITS))
    await work(store, time, 3, 1)
    await work(store, time, 2, 0, queue="other")
    await work(store, time, 1, 0, tenant_id=acme.id)
    assert await used(store) == []
    for _ in range(3):  # counting again changes nothing
        await count(store, time)
    error = (await used(store))[1].bytes - 4 * 2 - 3 * 3
    assert error > 0
    assert await used(store) == [
        Usage(TENANT, TODAY, "other", 2, 0, 2, 4.0, 2 * 5, final=False),
        Usage(TENANT, TODAY, "q", 4, 1, 4, 8.0, 4 * 2 + 3 * 3 + error, final=False),
    ]
    (whole,) = await store.usage_counts.usage_of(TENANT, TODAY, TODAY, by_queue=False)
    assert (whole.queue, whole.runs, whole.failed, whole.seconds) == (None, 6, 1, 12.0)
    everything = await store.usage_counts.usage_of_all(TODAY, TODAY, (0, 0), 10)
    assert [(each.tenant_id, each.runs) for each in everything] == [(TENANT, 6), (acme.id, 1)]
    after = (TENANT, day_of(TODAY))
    assert [each.tenant_id for each in await store.usage_counts.usage_of_all(TODAY, TODAY, after, 10)] == [acme.id]
    assert await used(store, first=TODAY + DAY, last=TODAY + 9 * DAY) == []


async def test_a_day_is_final_and_stays_when_its_history_is_gone(store: Store, time: Time) -> None:
    await work(store, time, 3, 1)
    time.advance(days=1)
    await work(store, time, 5, 0)
    # No node has counted, and history is past its retention.
    time.advance(days=40)
    for _ in range(3):
        await store.pruning.prune(DAY, 90 * DAY, 1000)
    assert (await store.reads.counts()).history == 0
    found = await used(store, last=TODAY + DAY)
    assert [(each.runs, each.final) for each in found] == [(4, True), (5, True)]
    await work(store, time, 2, 0)
    await count(store, time)
    assert await used(store, last=TODAY + DAY) == found
    later = time.now.date()
    assert [each.runs for each in await used(store, first=later, last=later)] == [2], "whatever numbers rows had before"
    assert await store.usage_counts.prune_usage(TODAY + DAY) == 1
    assert [each.runs for each in await used(store, last=TODAY + DAY)] == [5]


async def test_rows_that_come_back_are_not_counted_again(store: Store, time: Time) -> None:
    await work(store, time, 3, 0)
    time.advance(days=2)
    await count(store, time)
    await work(store, time, 1, 0)
    await add_ended(store, day_of(TODAY), 10)
    await count(store, time)
    assert [each.runs for each in await used(store)] == [3]
    now = time.now.date()
    assert [each.runs for each in await used(store, first=now, last=now)] == [1]


@pytest.mark.parametrize("late", [0, 2])
async def test_a_run_that_commits_after_its_day_was_closed_is_counted_before_the_day_is_dropped(
    store: Store, time: Time, late: int
) -> None:
    await work(store, time, 3, 0)
    time.advance(days=2)
    await count(store, time)
    time.advance(days=-2)  # as its transaction saw the clock
    if late:
        await work(store, time, late, 0)
    time.advance(days=40)
    await count(store, time)
    for _ in range(3):
        await store.pruning.prune(DAY, 90 * DAY, 1000)
    assert (await store.reads.counts()).history == 0
    assert [each.runs for each in await used(store)] == [3 + late]


async def test_a_day_that_was_forgotten_is_not_counted_again_while_history_has_it(store: Store, time: Time) -> None:
    await work(store, time, 3, 0)
    time.advance(days=10)
    await count(store, time)
    assert await store.usage_counts.prune_usage(TODAY + 5 * DAY) == 1
    await count(store, time)
    assert await used(store) == []
