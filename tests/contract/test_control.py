"""Cancelling, in every home."""

import asyncio
from datetime import timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.attempt import AttemptState
from duetime.model.job import JobState
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, retried, submit
from tests.contract.worlds import Time

MINUTE = timedelta(minutes=1)


async def test_a_one_off_that_has_not_fired_ends_as_its_cancelled_run(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(hours=1)), args=b"[1]"))
    found = await store.control.cancel_job(TENANT, submitted.job_id)
    assert (found.state, found.next_run, found.args) == (JobState.CANCELLED, None, b"[1]")
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.state, run.due_at, run.finished_at) == (RunState.CANCELLED, submitted.next_run, time.now)
    assert (run.attempt, run.fence, run.attempts, run.error) == (0, 0, (), "cancelled on request")
    time.advance(hours=1)
    assert (await fire(store)).seen == 0
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs, counts.history, counts.dead_letters) == (0, 0, 1, 0)


async def test_a_waiting_run_ends(store: Store) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    assert submitted.run_id is not None
    run = await store.control.cancel_run(TENANT, submitted.run_id)
    assert (run.state, run.attempts) == (RunState.CANCELLED, ())
    assert (await store.reads.job(TENANT, submitted.job_id)).state is JobState.CANCELLED
    assert await worker.claim() == []


async def test_a_run_between_attempts_ends_and_keeps_them(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    claimed = await worker.claim_one()
    await worker.retry(claimed, 60)
    run = await store.control.cancel_run(TENANT, claimed.run_id)
    assert (run.state, run.attempt, run.fence, run.error) == (RunState.CANCELLED, 1, 1, "cancelled on request")
    assert [attempt.state for attempt in run.attempts] == [AttemptState.FAILED]
    assert await store.reads.run(TENANT, claimed.run_id) == run


async def test_a_running_run_is_asked_to_stop(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    claimed = await worker.claim_one()
    run = await store.control.cancel_run(TENANT, claimed.run_id)
    assert run.state is RunState.RUNNING
    assert await store.control.cancel_run(TENANT, claimed.run_id) == run
    assert await store.leases.cancellations(worker.id) == (claimed.run_id,)
    await worker.complete(retried(claimed))
    assert (await store.reads.run(TENANT, claimed.run_id)).state is RunState.CANCELLED


async def test_cancelling_a_job_asks_its_running_run_to_stop(store: Store) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    claimed = await worker.claim_one()
    assert (await store.control.cancel_job(TENANT, submitted.job_id)).state is JobState.ACTIVE
    assert await store.leases.cancellations(worker.id) == (claimed.run_id,)


async def test_cancelling_a_recurring_job_ends_it_with_its_waiting_runs(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job(Every(MINUTE)))
    time.advance(minutes=1)
    await fire(store)
    running = await worker.claim_one()
    time.advance(seconds=50)
    await fire(store)
    found = await store.control.cancel_job(TENANT, submitted.job_id)
    assert (found.state, found.next_run) == (JobState.CANCELLED, None)
    waiting, first = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (waiting.state, first.state) == (RunState.CANCELLED, RunState.RUNNING)
    assert await store.leases.cancellations(worker.id) == (running.run_id,)
    time.advance(minutes=10)
    assert (await fire(store)).seen == 0
    assert (await store.control.cancel_job(TENANT, submitted.job_id)).state is JobState.CANCELLED


async def test_cancelling_one_run_of_a_recurring_job_leaves_the_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    time.advance(seconds=50)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (await store.control.cancel_run(TENANT, run.id)).state is RunState.CANCELLED
    assert (await store.reads.job(TENANT, submitted.job_id)).state is JobState.ACTIVE
    time.advance(minutes=1)
    assert (await fire(store)).fired == 1
    assert [run.state for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [
        RunState.PENDING,
        RunState.CANCELLED,
    ]


async def test_what_is_over_stays_as_it_ended(store: Store) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    claimed = await worker.claim_one()
    await worker.succeed(claimed)
    assert (await store.control.cancel_run(TENANT, claimed.run_id)).state is RunState.SUCCEEDED
    assert (await store.control.cancel_job(TENANT, submitted.job_id)).state is JobState.ENDED
    assert (await store.reads.counts()).history == 1


async def test_a_foreign_id_answers_as_a_missing_one(store: Store, time: Time) -> None:
    worker = await hand(store)
    later = await submit(store, job(Once(delay=timedelta(hours=1))))
    recurring = await submit(store, job(Every(MINUTE)))
    ready = await submit(store, job())
    assert ready.run_id is not None
    ended = await submit(store, job())
    (first, second) = await worker.claim()
    await worker.succeed(second)
    for submitted in (later, recurring, ready, ended):
        messages = []
        for tenant_id, job_id in ((STRANGER, submitted.job_id), (TENANT, new_id())):
            for ask in (store.reads.job, store.control.cancel_job):
                with pytest.raises(NotFound) as caught:
                    await ask(tenant_id, job_id)
                messages.append(str(caught.value).rpartition("_")[0])
            assert await store.reads.runs_of_job(tenant_id, job_id) == []
        assert len(set(messages)) == 1
    for run_id in (first.run_id, second.run_id):
        for ask_run in (store.reads.run, store.control.cancel_run):
            with pytest.raises(NotFound):
                await ask_run(STRANGER, run_id)
    assert (await store.reads.run(TENANT, first.run_id)).state is RunState.RUNNING
    assert await store.leases.cancellations(worker.id) == ()
    assert (await store.reads.job(TENANT, later.job_id)).state is JobState.ACTIVE
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs, counts.history) == (2, 1, 1)


async def test_cancelling_while_it_is_claimed_and_fired_leaves_no_run_behind(
    store: Store, other: Store, time: Time
) -> None:
    worker = await hand(other, timedelta(hours=1))
    jobs = [job(Once(delay=MINUTE)) for _ in range(20)] + [job() for _ in range(20)]
    await store.intake.submit(TENANT, jobs)
    time.advance(minutes=1)
    await asyncio.gather(
        *(store.control.cancel_job(TENANT, item.id) for item in jobs), fire(other, 7), worker.claim(), fire(other, 30)
    )
    asked = set(await store.leases.cancellations(worker.id))
    for item in jobs:
        (run,) = await store.reads.runs_of_job(TENANT, item.id)
        assert run.state is RunState.CANCELLED or run.id in asked
    assert (await store.reads.counts()).jobs == 0
