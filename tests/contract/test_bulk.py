"""Bulk actions: everything that matches, each once, whichever server does it."""

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.bulk_runner import BATCH, BulkRunner, count_affected
from duetime.errors import NotFound, QuotaExceeded, StoreUnavailable
from duetime.ids import new_id
from duetime.model.bulk import Bulk, BulkPlan, BulkStep, BulkWork, DeadLettersWork, JobsWork, NewBulk, RunsWork
from duetime.model.job import JobState, Options, encode_options
from duetime.model.lists import DeadFilter, JobFilter, JobStatus, RunFilter
from duetime.model.run import RunState
from duetime.model.schedule import Cron
from duetime.store.protocol.store import Store
from duetime.store.shared.bulk import KEPT
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import Time

DAILY = Cron("0 9 * * *")
LEASE = timedelta(seconds=30)


async def put(store: Store, work: BulkWork, *, rate: float | None = None) -> Bulk:
    return await store.bulk.put_bulk(NewBulk(new_id(), TENANT, BulkPlan(work, {}, rate), None, "ops"))


async def finish(store: Store, bulk: Bulk) -> Bulk:
    runner = BulkRunner(store)
    for _ in range(100):
        await runner.tick()
        found = await store.bulk.bulk(TENANT, bulk.id)
        if found.finished_at is not None:
            return found
    raise AssertionError("it does not end")


async def test_everything_that_matches_is_handled_and_nothing_else(store: Store) -> None:
    mail = [job(DAILY, queue="mail") for _ in range(2 * BATCH + 5)]
    await submit(store, *mail, job(DAILY, queue="slow"))
    (stranger,) = await store.intake.submit(STRANGER, [job(DAILY, queue="mail", tenant_id=STRANGER)])
    await store.control.pause_job(TENANT, mail[3].id)
    work = JobsWork("pause", JobFilter(queue="mail"))
    count = await count_affected(store, TENANT, work)
    assert (count.matching, count.affected, count.complete) == (len(mail), len(mail) - 1, True)
    assert [item.id for item in count.sample] == [each.id for each in reversed(mail[-5:])]
    end = await finish(store, await put(store, work))
    assert (end.done, end.skipped, end.failed, end.stopped) == (len(mail) - 1, 1, 0, False)
    paused = await store.lists.list_jobs(TENANT, JobFilter(status=JobStatus.PAUSED), limit=1000)
    assert {item.id for item in paused.items} == {each.id for each in mail}
    assert (await store.reads.job(STRANGER, stranger.job_id)).state is JobState.ACTIVE
    end = await finish(store, await put(store, JobsWork("cancel", JobFilter(status=JobStatus.PAUSED))))
    assert (end.done, end.skipped) == (len(mail), 0)


async def test_a_server_that_dies_between_acting_and_recording_starts_nothing_twice(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job(DAILY) for _ in range(BATCH + 10)]
    await submit(store, *jobs)
    bulk = await put(store, JobsWork("run", JobFilter()), rate=1000)

    async def die(*given: Any) -> bool:
        raise StoreUnavailable("the server is gone")

    with monkeypatch.context() as patch:
        patch.setattr(store.bulk, "keep_bulk", die)
        with pytest.raises(StoreUnavailable):
            await BulkRunner(store).tick()
    assert (await store.reads.counts()).runs == BATCH
    await BulkRunner(store).tick()  # the lease of the dead one still holds
    assert (await store.bulk.bulk(TENANT, bulk.id)).done == 0
    time.advance(seconds=31)
    runner = BulkRunner(store)
    await runner.tick()
    time.advance(seconds=1)
    await runner.tick()
    end = await store.bulk.bulk(TENANT, bulk.id)
    assert (end.done, end.skipped, end.failed, end.finished_at is not None) == (len(jobs), 0, 0, True)
    assert (await store.reads.counts()).runs == len(jobs)
    (first, *_) = await store.audit.audit(TENANT, limit=1)
    assert (first.entry.actor, first.entry.action) == ("ops", "bulk_actions.end")


async def test_runs_and_dead_letters(store: Store, time: Time) -> None:
    once = encode_options(Options())
    await submit(store, *(job(options=once) for _ in range(4)))
    worker = await hand(store)
    claimed = await worker.claim()
    for run in claimed:
        await worker.fail(run)
    count = await count_affected(store, TENANT, DeadLettersWork("discard", DeadFilter()))
    assert (count.matching, count.affected) == (4, 4)
    await finish(store, await put(store, DeadLettersWork("discard", DeadFilter(run_id=claimed[0].run_id))))
    end = await finish(store, await put(store, DeadLettersWork("retry", DeadFilter()), rate=1000))
    assert (end.done, (await store.lists.list_dead_letters(TENANT, DeadFilter())).items) == (3, ())
    # The fourth has no dead letter any more, and its history is enough to repeat it.
    time.advance(seconds=1)
    end = await finish(store, await put(store, RunsWork("retry", RunFilter(state=RunState.FAILED)), rate=1000))
    assert (end.done, end.skipped, (await store.reads.counts()).runs) == (1, 3, 4), "three were repeated before"
    end = await finish(store, await put(store, RunsWork("cancel", RunFilter(state=RunState.PENDING))))
    assert (end.done, (await store.reads.counts()).runs) == (4, 0)


async def test_what_it_repeats_counts_although_the_clock_was_put_back(store: Store, time: Time) -> None:
    """Else its rate would not count it either."""
    await submit(store, *(job() for _ in range(3)))
    worker = await hand(store)
    for run in await worker.claim():
        await worker.fail(run)
    bulk = await put(store, DeadLettersWork("retry", DeadFilter()), rate=1000)
    time.advance(minutes=-5)
    end = await finish(store, bulk)
    assert (end.done, end.skipped, (await store.reads.counts()).runs) == (3, 0, 3)


async def test_one_server_at_a_time_and_stopping(store: Store) -> None:
    bulk = await put(store, JobsWork("pause", JobFilter()))
    one, other = new_id(), new_id()
    assert await store.bulk.take_bulk(one, LEASE) == bulk
    assert await store.bulk.take_bulk(other, LEASE) is None
    assert not await store.bulk.keep_bulk(bulk, other, BulkStep(None, done=9), LEASE)
    assert await store.bulk.keep_bulk(bulk, one, BulkStep(bulk.id, done=2, skipped=1), LEASE)
    await store.bulk.leave_bulk(bulk, one, timedelta(0))
    found = await store.bulk.take_bulk(other, LEASE)
    assert found is not None
    assert (found.below, found.done, found.skipped) == (bulk.id, 2, 1)
    stopped = await store.bulk.stop_bulk(TENANT, bulk.id)
    assert (stopped.stopped, stopped.finished_at is None) == (True, False)
    assert await store.bulk.stop_bulk(TENANT, bulk.id) == stopped
    assert not await store.bulk.keep_bulk(bulk, other, BulkStep(None, done=9), LEASE)
    assert await store.bulk.take_bulk(one, LEASE) is None
    for call in (store.bulk.bulk, store.bulk.stop_bulk):
        with pytest.raises(NotFound):
            await call(STRANGER, bulk.id)


async def test_a_tenant_has_a_bounded_number(store: Store) -> None:
    for _ in range(KEPT + 5):
        await store.bulk.stop_bulk(TENANT, (await put(store, JobsWork("pause", JobFilter()))).id)
    assert len(await store.bulk.bulks(TENANT, limit=1000)) == KEPT + 1
    for _ in range(20):
        await put(store, JobsWork("pause", JobFilter()))
    with pytest.raises(QuotaExceeded, match="20 bulk actions at once"):
        await put(store, JobsWork("pause", JobFilter()))
