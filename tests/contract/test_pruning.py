"""Pruning: what is older than its retention goes, and nothing else."""

from datetime import timedelta

import pytest

from duetime.errors import NotFound
from duetime.model.job import JobState
from duetime.model.run import RunState
from duetime.model.schedule import Every
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import Time

DAY = timedelta(days=1)


async def prune(
    store: Store, retention: timedelta = DAY, dead_letters: timedelta = 10 * DAY, keys: timedelta = DAY
) -> int:
    """Prune until nothing is left to prune."""
    removed = 0
    while step := await store.pruning.prune(retention, dead_letters, 3, idempotency_retention=keys):
        removed += step
    return removed


async def test_history_goes_after_its_retention(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    await submit(store, *(job() for _ in range(7)))
    await worker.succeed(*await worker.claim())
    time.advance(hours=23)
    await prune(store)
    assert (await store.reads.counts()).history == 7
    time.advance(days=2)
    assert await prune(store) > 0
    assert (await store.reads.counts()).history == 0


async def test_what_is_live_is_never_pruned(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=30))
    recurring = await submit(store, job(Every(timedelta(days=100)), key="k", idempotency_key="i"))
    await submit(store, job(), job(key="one", idempotency_key="two"))
    first, second = await worker.claim()
    await worker.retry(first)
    time.advance(days=5)
    await prune(store)
    assert (await store.reads.job(TENANT, recurring.job_id)).state is JobState.ACTIVE
    assert (await store.reads.run(TENANT, first.run_id)).state is RunState.RETRYING
    assert (await store.reads.run(TENANT, second.run_id)).state is RunState.RUNNING
    again = await submit(store, job(key="one", idempotency_key="two"))
    assert not again.created
    assert not (await submit(store, job(Every(timedelta(days=100)), key="k"))).created


async def test_dead_letters_outlive_history(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(5)))
    for run in await worker.claim():
        await worker.fail(run)
    time.advance(days=5)
    await prune(store)
    counts = await store.reads.counts()
    assert (counts.history, counts.dead_letters) == (0, 5)
    time.advance(days=6)
    assert await prune(store) >= 5
    assert (await store.reads.counts()).dead_letters == 0


async def test_recurring_jobs_go_after_they_ended(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(timedelta(minutes=1))))
    await store.control.cancel_job(TENANT, submitted.job_id)
    time.advance(hours=23)
    await prune(store)
    assert (await store.reads.job(TENANT, submitted.job_id)).state is JobState.CANCELLED
    time.advance(days=1)
    assert await prune(store) >= 1
    with pytest.raises(NotFound):
        await store.reads.job(TENANT, submitted.job_id)


async def test_keys_of_what_is_over_are_kept_for_a_day_at_least(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(idempotency_key="i"))
    await worker.succeed(await worker.claim_one())
    time.advance(hours=23)
    await prune(store, retention=timedelta(hours=1))
    assert not (await submit(store, job(idempotency_key="i"))).created
    time.advance(hours=2)
    await prune(store, retention=timedelta(hours=1))
    assert (await submit(store, job(idempotency_key="i"))).created


@pytest.mark.parametrize("kept", [timedelta(hours=2), 7 * DAY])
async def test_idempotency_keys_are_kept_as_long_as_is_asked(store: Store, time: Time, kept: timedelta) -> None:
    worker = await hand(store, timedelta(days=30))
    first = await submit(store, job(key="k", idempotency_key="i"))
    await worker.succeed(await worker.claim_one())
    time.advance(seconds=kept.total_seconds() - 60)
    await prune(store, keys=kept)
    assert (await submit(store, job(key="k", idempotency_key="i"))).job_id == first.job_id
    time.advance(minutes=2)
    await prune(store, keys=kept)
    assert (await submit(store, job(key="k", idempotency_key="i"))).created


async def test_a_key_names_its_job_only_while_that_lives(store: Store) -> None:
    worker = await hand(store)
    first = await submit(store, job(key="k"))
    assert (await submit(store, job(key="k"))).job_id == first.job_id
    await worker.succeed(await worker.claim_one())
    assert (await submit(store, job(key="k"))).created


async def test_the_idempotency_key_of_a_job_that_lives_on_stays(store: Store, time: Time) -> None:
    first = await submit(store, job(Every(timedelta(days=100)), idempotency_key="i"))
    time.advance(days=50)
    await prune(store, keys=timedelta(hours=1))
    assert (await submit(store, job(Every(timedelta(days=100)), idempotency_key="i"))).job_id == first.job_id


async def test_completions_find_room_after_every_midnight(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=30))
    for _ in range(12):
        await submit(store, job())
        await worker.succeed(await worker.claim_one())
        await store.pruning.prune(timedelta(days=3), DAY)
        time.advance(days=1)
    assert (await store.reads.counts()).history in (4, 5)


async def test_keys_that_live_long_are_gone_through_a_part_at_a_time(store: Store, time: Time) -> None:
    """To pass by all of them whenever something is pruned would take ever longer."""
    worker = await hand(store, 9 * DAY)
    for number in range(30):
        await submit(store, job(Every(100 * DAY), key=f"live {number}"))
        time.advance(seconds=1)
    await submit(store, job(idempotency_key="over"))
    await worker.succeed(await worker.claim_one())
    time.advance(days=2)

    async def is_kept() -> bool:
        await store.pruning.prune(9 * DAY, 9 * DAY, 1)
        return not (await submit(store, job(idempotency_key="over"))).created

    assert await is_kept(), "twenty were looked at, and all of them live"
    assert not await is_kept()


async def test_many_keys_of_one_moment_go_together(store: Store, time: Time) -> None:
    worker = await hand(store, 9 * DAY)
    await submit(store, *(job(idempotency_key=f"i {number}") for number in range(50)))
    await worker.succeed(*await worker.claim())
    time.advance(days=2)
    assert await store.pruning.prune(9 * DAY, 9 * DAY, 3) >= 50
