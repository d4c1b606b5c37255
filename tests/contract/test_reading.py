"""Reading: all homes at once, newest first, each tenant its own."""

from datetime import timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.job import Options, decode_options, encode_options
from duetime.model.lane import Tier
from duetime.model.run import RunState
from duetime.model.schedule import Every
from duetime.store.protocol.store import Store
from duetime.store.rules.job_rows import MOST_ATTEMPTS
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import Time


async def test_the_runs_of_a_job_come_newest_first_from_every_home(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job(Every(timedelta(minutes=1))))
    for turn in range(4):
        time.advance(minutes=1)
        await fire(store)
        claimed = await worker.claim_one()
        if turn == 0:
            await worker.fail(claimed)
        elif turn == 1:
            await worker.succeed(claimed)
        elif turn == 2:
            await worker.retry(claimed, 3600)
    time.advance(seconds=50)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert [run.state for run in runs] == [
        RunState.PENDING,
        RunState.RUNNING,
        RunState.RETRYING,
        RunState.SUCCEEDED,
        RunState.FAILED,
    ]
    assert [run.due_at for run in runs] == sorted((run.due_at for run in runs), reverse=True)
    assert await store.reads.runs_of_job(TENANT, submitted.job_id, limit=2) == runs[:2]
    assert await store.reads.runs_of_job(TENANT, submitted.job_id, limit=4) == runs[:4]
    for run in runs:
        assert await store.reads.run(TENANT, run.id) == run
    found = await store.reads.job(TENANT, submitted.job_id)
    assert found.next_run == runs[2].due_at


async def test_missing_things_are_named(store: Store) -> None:
    with pytest.raises(NotFound, match="there is no job job_"):
        await store.reads.job(TENANT, new_id())
    with pytest.raises(NotFound, match="there is no run run_"):
        await store.reads.run(TENANT, new_id())
    assert await store.reads.runs_of_job(TENANT, new_id()) == []


async def test_a_run_carries_its_lane_and_its_options_in_every_home(store: Store) -> None:
    worker = await hand(store)
    options = encode_options(Options(name="n", tags=("a", "b")))
    submitted = await submit(store, job(task="count", queue="slow", tier=Tier.HIGH, options=options))
    claimed = await worker.claim_one()
    for _ in range(2):
        run = await store.reads.run(TENANT, claimed.run_id)
        assert (run.task, run.queue, run.tier) == ("count", "slow", Tier.HIGH)
        found = await store.reads.job(TENANT, submitted.job_id)
        assert (found.task, found.queue, found.tier) == ("count", "slow", Tier.HIGH)
        assert found.options == decode_options(options)
        await worker.succeed(claimed)


async def test_counts_are_exact(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(5)), job(Every(timedelta(minutes=1))))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    runs = await worker.claim(4)
    await worker.fail(runs[0])
    await worker.succeed(runs[1])
    await worker.retry(runs[2])
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs, counts.history, counts.dead_letters) == (1, 4, 3, 1)


async def test_no_more_than_the_newest_attempts_of_a_run_are_read(store: Store) -> None:
    """A run that snoozes for ever must not make reading it ever slower."""
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job())
    assert submitted.run_id is not None
    for _ in range(MOST_ATTEMPTS):
        await worker.snooze(await worker.claim_one())
    run = await store.reads.run(TENANT, submitted.run_id)
    assert ([item.fence for item in run.attempts], run.has_earlier_attempts) == (list(range(1, 101)), False)
    await worker.snooze(await worker.claim_one())
    waiting = await store.reads.run(TENANT, submitted.run_id)
    await worker.succeed(await worker.claim_one())
    over = await store.reads.run(TENANT, submitted.run_id)
    (listed,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert over == listed
    for run, last in ((waiting, 101), (over, 102)):
        assert [item.fence for item in run.attempts] == list(range(last - 99, last + 1))
        assert run.has_earlier_attempts
    assert over.state is RunState.SUCCEEDED


async def test_fewer_attempts_of_each_run_are_read_when_there_are_many_runs(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(days=1))
    submitted = await submit(store, job(Every(timedelta(minutes=1))))
    for turn in range(100):
        time.advance(minutes=1)
        await fire(store)
        for _ in range(11 if turn == 99 else 0):
            await worker.snooze(await worker.claim_one())
        await worker.succeed(await worker.claim_one())
    newest, *others = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (len(newest.attempts), newest.has_earlier_attempts) == (10, True)
    assert newest.state is RunState.SUCCEEDED
    assert {(len(run.attempts), run.has_earlier_attempts) for run in others} == {(1, False)}
