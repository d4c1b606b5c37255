"""Suspicion: jobs and tasks whose runs were there when workers died, and how they are cleared."""

from collections.abc import Mapping
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.job import Options, encode_options
from duetime.model.lane import LaneKey, Trial
from duetime.model.schedule import Every
from duetime.model.suspicion import FORGET_JOBS, FORGET_TASKS
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time
from tests.support.unclaimed import unclaimed

EVERY = Every(timedelta(seconds=20))
GREET = (TENANT, "greet")


async def waiting(store: Store) -> Mapping[UUID, int]:
    """How the runs that wait would be tried, going by their lanes."""
    lanes = {lane.id: lane.key.trial for lane in await store.claims.lanes()}
    return {run.run_id: lanes[run.lane_id] for run in await unclaimed(store)}


async def die(store: Store, time: Time) -> None:
    """A worker takes all that is ready, and dies."""
    worker = await hand(store)
    assert await worker.claim()
    time.advance(seconds=LEASE.total_seconds() + 1)
    await reap(store)


async def lose_occurrences(store: Store, time: Time, count: int) -> None:
    """So many occurrences of one job each kill a worker; each of them is over then."""
    for _ in range(count):
        time.advance(seconds=20)
        await fire(store)
        await die(store, time)


NO_SECOND_TRY = encode_options(Options(at_most_once=True))


async def test_new_runs_of_a_job_that_lost_workers_are_put_on_trial_when_they_are_fired(
    store: Store, time: Time
) -> None:
    await submit(store, job(EVERY, options=NO_SECOND_TRY))
    seen = []
    for _ in range(5):
        time.advance(seconds=20)
        await fire(store)
        seen.append(set((await waiting(store)).values()))
        await die(store, time)
    assert seen == [{Trial.NONE}, {Trial.SUSPECT}, {Trial.PROBED}, {Trial.ALONE}, {Trial.ALONE}]


async def test_runs_that_wait_already_are_put_on_trial_with_the_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY, options=NO_SECOND_TRY))
    time.advance(seconds=20)
    await fire(store)
    worker = await hand(store)
    await worker.claim_one()
    extra = await store.control.trigger_job(TENANT, submitted.job_id, b"1")
    assert await waiting(store) == {extra.id: Trial.NONE}
    time.advance(seconds=LEASE.total_seconds() + 1)
    await reap(store)
    assert (await waiting(store))[extra.id] == Trial.SUSPECT
    # And so is a run that is triggered now.
    another = await store.control.trigger_job(TENANT, submitted.job_id, b"2")
    assert (await waiting(store))[another.id] == Trial.SUSPECT
    # They are claimed like all others.
    fresh = await hand(store)
    assert {extra.id, another.id} <= {run.run_id for run in await fresh.claim()}


async def test_runs_that_were_lost_before_are_tried_as_carefully_as_their_job(store: Store, time: Time) -> None:
    """They waited for a worker while later runs of the job killed others."""
    await submit(store, job(Every(timedelta(seconds=4))))
    for _ in range(3):
        time.advance(seconds=4)
        await fire(store)
        assert len(await (await hand(store)).claim()) == 1
    time.advance(seconds=LEASE.total_seconds() - 7)
    seen = []
    for _ in range(3):
        assert await reap(store) == 1
        seen.append(sorted((await waiting(store)).values()))
        time.advance(seconds=4)
    assert seen == [[Trial.SUSPECT], [Trial.PROBED] * 2, [Trial.ALONE] * 3]


@pytest.mark.parametrize("how", ["succeeds", "fails"])
async def test_a_run_that_comes_to_its_end_clears_its_job(store: Store, time: Time, how: str) -> None:
    await submit(store, job(EVERY, options=NO_SECOND_TRY))
    await lose_occurrences(store, time, 2)
    time.advance(seconds=20)
    await fire(store)
    worker = await hand(store)
    (run, *_) = await worker.claim()
    await (worker.succeed(run) if how == "succeeds" else worker.fail(run))
    await reap(store)
    time.advance(seconds=20)
    await fire(store)
    assert set((await waiting(store)).values()) == {Trial.NONE}


async def test_an_attempt_that_fails_takes_its_run_off_trial(store: Store, time: Time) -> None:
    await submit(store, job())
    await die(store, time)
    worker = await hand(store)
    run = await worker.claim_one()
    await worker.snooze(run)
    assert set((await waiting(store)).values()) == {Trial.SUSPECT}, "it may not have been tried at all"
    await worker.retry(await worker.claim_one())
    assert set((await waiting(store)).values()) == {Trial.NONE}


async def test_another_job_of_the_task_is_trusted_until_one_was_lost_twice(store: Store, time: Time) -> None:
    key = LaneKey(TENANT, "default", 1, "greet")
    await submit(store, job())
    seen = [(await store.claims.rules()).suspicion.trial(key)]
    for _ in range(4):
        await die(store, time)
        seen.append((await store.claims.rules()).suspicion.trial(key))
    assert seen == [Trial.NONE, Trial.NONE, Trial.SUSPECT, Trial.PROBED, Trial.ALONE]
    suspicion = (await store.claims.rules()).suspicion
    assert suspicion.trial(LaneKey(TENANT, "other", 0, "greet")) == Trial.ALONE
    assert suspicion.trial(LaneKey(TENANT, "default", 1, "count")) == Trial.NONE
    assert suspicion.trial(LaneKey(TENANT + 1, "default", 1, "greet")) == Trial.NONE


async def lose_new_job(store: Store, time: Time) -> int:
    """A job that is new, and not tried again, is lost with its worker; how its task is tried then."""
    await submit(store, job(options=NO_SECOND_TRY))
    await die(store, time)
    return (await store.claims.rules()).suspicion.trial(LaneKey(TENANT, "default", 1, "greet"))


async def test_a_task_is_suspected_whose_jobs_are_lost_one_after_the_other_though_each_is_new(
    store: Store, time: Time
) -> None:
    seen = [await lose_new_job(store, time) for _ in range(5)]
    assert seen == [Trial.NONE, Trial.SUSPECT, Trial.PROBED, Trial.ALONE, Trial.ALONE]


async def test_a_task_whose_attempts_end_between_the_losses_of_its_jobs_is_trusted(store: Store, time: Time) -> None:
    """One bad job now and then, among many good ones."""
    for _ in range(4):
        assert await lose_new_job(store, time) == Trial.NONE
        time.advance(seconds=2)
        await store.breakers.report_attempts([Tally(TENANT, "greet", tried=1)], BreakerPolicy())


async def test_jobs_of_a_task_that_are_lost_together_count_once(store: Store, time: Time) -> None:
    """With one worker, and with several that went down at about the same time, even if that is noticed bit by bit."""
    for _ in range(4):
        for _ in range(3):
            await submit(store, job(options=NO_SECOND_TRY))
        assert len(await (await hand(store)).claim()) == 3
        time.advance(seconds=2)
    time.advance(seconds=LEASE.total_seconds() - 8)
    for _ in range(4):
        assert await reap(store) == 3
        time.advance(seconds=2)
    assert (await store.claims.rules()).suspicion.tasks == {}


async def test_losses_of_a_task_that_overlap_are_counted_by_generations(store: Store, time: Time) -> None:
    """A job each ten seconds: before a loss is noticed, the next one has started."""
    seen = []
    for _ in range(12):
        await submit(store, job(options=NO_SECOND_TRY))
        assert len(await (await hand(store)).claim()) == 1
        time.advance(seconds=10)
        await reap(store)
        seen.append((await store.claims.rules()).suspicion.trial(LaneKey(TENANT, "default", 1, "greet")))
    assert seen == [*5 * [Trial.NONE], *3 * [Trial.SUSPECT], *3 * [Trial.PROBED], Trial.ALONE]


async def test_an_attempt_of_the_task_that_ends_clears_it(store: Store, time: Time) -> None:
    await submit(store, job())
    for _ in range(4):
        await die(store, time)
    time.advance(seconds=2)
    await store.breakers.report_attempts([Tally(TENANT, "count", tried=1)], BreakerPolicy())
    await reap(store)
    assert (await store.claims.rules()).suspicion.tasks == {GREET: Trial.ALONE}
    await store.breakers.report_attempts([Tally(TENANT, "greet", tried=1, failed=1)], BreakerPolicy())
    await reap(store)
    assert (await store.claims.rules()).suspicion.tasks == {}


async def test_what_ends_well_between_deaths_is_not_suspected_when_they_are_noticed_later(
    store: Store, time: Time
) -> None:
    """As when something else kills one worker after the other, and each of them had this job among its runs."""
    await submit(store, job(Every(timedelta(seconds=2)), options=NO_SECOND_TRY))
    for _ in range(4):
        time.advance(seconds=2)
        await fire(store)
        dying = await hand(store)
        assert await dying.claim()
        time.advance(seconds=2)
        await fire(store)
        living = await hand(store)
        for run in await living.claim():
            await living.succeed(run)
        await store.breakers.report_attempts([Tally(TENANT, "greet", tried=1)], BreakerPolicy())
    time.advance(seconds=LEASE.total_seconds() + 1)
    assert await reap(store) == 4
    suspicion = (await store.claims.rules()).suspicion
    assert (suspicion.tasks, suspicion.opens) == ({}, {})
    await fire(store)
    assert set((await waiting(store)).values()) == {Trial.NONE}


async def test_losses_are_forgotten(store: Store, time: Time) -> None:
    await submit(store, job(EVERY, options=NO_SECOND_TRY))
    await lose_occurrences(store, time, 4)
    assert (await store.claims.rules()).suspicion.tasks == {GREET: Trial.ALONE}
    time.advance(seconds=FORGET_TASKS.total_seconds() + 1)
    await reap(store)
    suspicion = (await store.claims.rules()).suspicion
    assert (suspicion.tasks, list(suspicion.opens)) == ({}, [GREET]), "its job is still one to be careful with"
    time.advance(seconds=FORGET_JOBS.total_seconds())
    await reap(store)
    assert (await store.claims.rules()).suspicion.opens == {}


async def test_a_worker_that_dies_counts_once_for_a_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY))
    for nonce in (b"1", b"2", b"3"):
        await store.control.trigger_job(TENANT, submitted.job_id, nonce)
    worker = await hand(store)
    for _ in range(3):
        assert len(await worker.claim(1)) == 1
    time.advance(seconds=LEASE.total_seconds() + 1)
    await reap(store)
    assert set((await waiting(store)).values()) == {Trial.SUSPECT}


async def test_an_end_before_the_run_that_was_lost_was_claimed_clears_nothing(store: Store, time: Time) -> None:
    """The worker was heard of before, at its last heartbeat; its claim shows that it lived on."""
    await submit(store, job(Every(timedelta(seconds=2)), options=NO_SECOND_TRY))
    worker = await hand(store)
    time.advance(seconds=2)
    await fire(store)
    for run in await worker.claim():
        await worker.succeed(run)
    time.advance(seconds=2)
    await fire(store)
    assert len(await worker.claim()) == 1
    time.advance(seconds=LEASE.total_seconds() + 1)
    assert await reap(store) == 1
    await fire(store)
    assert set((await waiting(store)).values()) == {Trial.SUSPECT}


async def test_a_run_that_failed_is_not_put_on_trial_again_with_its_job(store: Store, time: Time) -> None:
    await submit(store, job(Every(timedelta(hours=1))))
    time.advance(hours=1)
    await fire(store)
    for _ in range(3):
        await die(store, time)
    assert set((await waiting(store)).values()) == {Trial.ALONE}
    worker = await hand(store)
    await worker.retry(await worker.claim_one())
    await reap(store)
    assert set((await waiting(store)).values()) == {Trial.NONE}


async def test_runs_that_wait_leave_their_trial_when_their_job_is_cleared(store: Store, time: Time) -> None:
    await submit(store, job(Every(timedelta(seconds=4))))
    for _ in range(3):
        time.advance(seconds=4)
        await fire(store)
        assert len(await (await hand(store)).claim()) == 1
    time.advance(seconds=LEASE.total_seconds() - 7)
    for _ in range(3):
        assert await reap(store) == 1
        time.advance(seconds=4)
    for _ in range(2):
        time.advance(seconds=4)
        await fire(store)
    worker = await hand(store)
    *others, harmless = await worker.claim()
    assert sorted(run.lost for run in others) == [0, 1, 1, 1]
    await store.completions.hand_back(worker.id, [(run.run_id, run.fence) for run in others])
    assert set((await waiting(store)).values()) == {Trial.ALONE}
    await worker.succeed(harmless)
    await reap(store)
    assert await waiting(store) == {run.run_id: run.lost for run in others}, "each is tried as its own losses say"
