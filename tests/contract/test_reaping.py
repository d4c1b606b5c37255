"""Reaping: the runs of workers that are gone, judged, counted apart, and put on trial."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from duetime.engine import clock_guard
from duetime.engine import reaper as engine_reaper
from duetime.model.attempt import AttemptState, Completion
from duetime.model.failure import FailureClass
from duetime.model.job import Options, encode_options
from duetime.model.lane import Trial
from duetime.model.run import RunState
from duetime.model.worker import Lost
from duetime.store.protocol.store import Store
from tests.contract.hands import GRACE, LEASE, TENANT, Hand, hand, job, judge, reap, submit
from tests.contract.worlds import Time

AT_MOST_ONCE = encode_options(Options(at_most_once=True))


async def test_runs_of_a_living_worker_are_left_alone(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.claim_one()
    time.advance(seconds=29.999999)
    assert await reap(store) == 0


@pytest.mark.parametrize("how", ["its lease is over", "its row is gone"])
async def test_runs_of_a_worker_that_is_gone_wait_again(store: Store, time: Time, how: str) -> None:
    worker, other = await hand(store), await hand(store, timedelta(hours=1))
    await submit(store, job(), job())
    first, second = await worker.claim()
    await worker.retry(second)
    second = await worker.claim_one()
    time.advance(seconds=10)
    if how == "its row is gone":
        await store.leases.leave(worker.id)
    else:
        time.advance(seconds=20)
    assert await reap(store) == 2
    assert await reap(store) == 0
    one, two = [await store.reads.run(TENANT, run.run_id) for run in (first, second)]
    assert (one.state, one.attempt, one.lost, one.fence) == (RunState.RETRYING, 0, 1, 1)
    assert (two.state, two.attempt, two.lost, two.fence) == (RunState.RETRYING, 1, 1, 2)
    assert (one.due_at, one.ready_at, one.worker_id) == (first.due_at, time.now, None)
    assert (one.failure, one.error) == (FailureClass.LOST, "its worker is gone")
    (attempt,) = one.attempts
    assert (attempt.state, attempt.worker_id, attempt.fence) == (AttemptState.LOST, worker.id, 1)
    # The old holder is too late.
    assert (await worker.succeed(first)).refused == {first.run_id}
    again = await other.claim()
    assert [(run.fence, run.attempt, run.lost) for run in sorted(again, key=lambda run: run.fence)] == [
        (2, 1, 1),
        (3, 2, 1),
    ]


async def test_lost_runs_go_to_a_trial_lane(store: Store, time: Time) -> None:
    await submit(store, job())
    (home,) = await store.claims.lanes()
    for trial in (Trial.SUSPECT, Trial.PROBED, Trial.ALONE):
        worker = await hand(store)
        await worker.claim_one()
        time.advance(seconds=31)
        await reap(store)
        lane = (await store.claims.lanes())[-1]
        assert lane.key == home.key.on_trial(trial)
        assert [
            sight.lane_id
            for sight in (await store.claims.look([item.id for item in await store.claims.lanes()], 5)).sights
        ] == [lane.id]
    worker = await hand(store)
    last = await worker.claim_one()
    assert (last.lost, last.attempt, last.fence) == (3, 1, 4)
    # Reading and history know the run under its own queue and task.
    await worker.succeed(last)
    run = await store.reads.run(TENANT, last.run_id)
    assert (run.task, run.queue, run.lost) == ("greet", "default", 3)


async def test_a_run_that_is_lost_too_often_is_a_dead_letter(store: Store, time: Time) -> None:
    submitted = await submit(store, job())
    assert submitted.run_id is not None
    for _ in range(4):
        worker = await hand(store)
        await worker.claim_one()
        time.advance(seconds=31)
        assert await reap(store) == 1
    run = await store.reads.run(TENANT, submitted.run_id)
    assert (run.state, run.lost, run.attempt, run.fence) == (RunState.FAILED, 4, 0, 4)
    assert [attempt.state for attempt in run.attempts] == [AttemptState.LOST] * 4
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (0, 4, 1)


async def test_a_run_that_may_start_once_only_ends_when_it_is_lost(store: Store, time: Time) -> None:
    worker = await hand(store)
    submitted = await submit(store, job(options=AT_MOST_ONCE))
    assert submitted.run_id is not None
    await worker.claim_one()
    time.advance(seconds=31)
    await reap(store)
    assert (await store.reads.run(TENANT, submitted.run_id)).state is RunState.FAILED


async def test_a_lost_run_that_shall_be_cancelled_ends(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await store.control.cancel_run(TENANT, run.run_id)
    time.advance(seconds=31)
    seen: list[Lost] = []

    def remember(lost: Sequence[Lost]) -> list[Completion]:
        seen.extend(lost)
        return judge(lost)

    assert await store.reaping.reap(10, remember, GRACE) == 1
    assert seen[0].cancel_requested
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED


async def test_the_judge_learns_what_it_needs(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(options=AT_MOST_ONCE, timeout_ms=1000))
    run = await worker.claim_one()
    time.advance(seconds=31)
    seen: list[Lost] = []

    def remember(lost: Sequence[Lost]) -> list[Completion]:
        seen.extend(lost)
        return judge(lost)

    await store.reaping.reap(10, remember, GRACE)
    assert seen == [
        Lost(run.run_id, 1, 1, 0, AT_MOST_ONCE, False, False, timedelta(seconds=31)),
    ]


async def test_what_the_judge_leaves_alone_stays(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    time.advance(seconds=31)
    assert await store.reaping.reap(10, lambda lost: [], GRACE) == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RUNNING
    assert await reap(store) == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RETRYING


async def test_a_judge_that_raises_changes_nothing(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.claim_one()
    time.advance(seconds=31)

    def raises(lost: Sequence[Lost]) -> list[Completion]:
        raise RuntimeError("no verdict")

    with pytest.raises(RuntimeError, match="no verdict"):
        await store.reaping.reap(10, raises, GRACE)
    assert await reap(store) == 1


async def test_a_run_past_its_timeout_is_taken_from_a_living_worker(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=1))
    await submit(store, job(timeout_ms=10_000), job(timeout_ms=60_000), job())
    runs = await worker.claim()
    time.advance(seconds=15)
    assert await reap(store) == 0
    time.advance(seconds=0.001)
    assert await reap(store) == 1
    assert await reap(store) == 0
    states = {run.timeout_ms: await store.reads.run(TENANT, run.run_id) for run in runs}
    assert states[10_000].state is RunState.RETRYING
    assert (states[10_000].attempt, states[10_000].lost) == (1, 0)
    assert states[10_000].failure is FailureClass.TIMEOUT
    assert states[60_000].state is states[None].state is RunState.RUNNING
    time.advance(seconds=50)
    assert await reap(store) == 1
    # No trial: its worker lives.
    assert len(await store.claims.lanes()) == 1
    assert (await store.leases.renew(worker.id, LEASE, [1])).freed == 0


async def test_no_more_claims_than_the_limit_are_reaped_at_a_time(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(6)))
    for _ in range(3):
        await worker.claim(2)
    time.advance(seconds=31)
    assert [await reap(store, 2), await reap(store, 2), await reap(store, 2)] == [4, 2, 0]


async def test_a_dead_worker_is_forgotten_at_once_and_its_claims_as_they_are_reaped(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(), job())
    await worker.claim(1)
    await worker.claim(1)
    time.advance(seconds=31)
    assert await reap(store, 1) == 1
    assert await store.leases.workers() == []
    assert [await reap(store, 1), await reap(store, 1)] == [1, 0]


async def test_reaping_at_once_never_doubles(store: Store, other: Store, time: Time) -> None:
    workers = [await hand(store) for _ in range(10)]
    await submit(store, *(job() for _ in range(60)))
    for worker in workers:
        await worker.claim(3)
        await worker.claim(3)
    time.advance(seconds=31)
    judged = await asyncio.gather(*(reap((store, other)[turn % 2], 4) for turn in range(12)))
    while more := await reap(store):
        judged.append(more)
    assert sum(judged) == 60
    assert (await store.reads.counts()).history == 60
    claimed = []
    fresh = await hand(store)
    while got := await fresh.claim():
        claimed += got
    assert len(claimed) == 60
    assert {(run.fence, run.lost, run.attempt) for run in claimed} == {(2, 1, 1)}


async def test_reaping_and_completing_at_once_ends_each_run_once(store: Store, other: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(40)))
    runs = await worker.claim()
    time.advance(seconds=31)
    completing = asyncio.gather(worker.succeed(*runs[:20]), *(worker.succeed(run) for run in runs[20:]))
    reaping = asyncio.gather(reap(other), reap(store))
    done = await completing
    await reaping
    while await reap(store):
        pass
    finished = [await store.reads.run(TENANT, run.run_id) for run in runs]
    assert all(run.state in (RunState.SUCCEEDED, RunState.RETRYING) for run in finished)
    succeeded = {run.id for run in finished if run.state is RunState.SUCCEEDED}
    assert succeeded == {run.run_id for run in runs} - {run_id for answer in done for run_id in answer.refused}
    counts = await store.reads.counts()
    assert (counts.runs, counts.history) == (40 - len(succeeded), 40)


async def test_claims_of_a_worker_that_came_back_under_a_new_id_are_reaped(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.claim_one()
    reborn = Hand(store)
    time.advance(seconds=31)
    await reborn.register()
    assert await reap(store) == 1
    assert len(await reborn.claim()) == 1


@pytest.mark.parametrize("step", [60, -60], ids=["forward", "back"])
async def test_nobody_reaps_for_one_lease_after_the_clock_jumped(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    passed = 1000.0
    monkeypatch.setattr(clock_guard, "monotonic", lambda: passed)
    dead, living = await hand(store, timedelta(seconds=1)), await hand(store)
    await submit(store, job(), job())
    await dead.claim(1)
    (kept,) = await living.claim(1)
    reaper = engine_reaper.Reaper(store, lease=LEASE)
    await reaper.tick()
    time.advance(seconds=step)
    await reaper.tick()
    assert len(await store.leases.workers()) == 2
    await store.leases.renew(living.id, timedelta(hours=1), [1])
    passed += LEASE.total_seconds()
    time.advance(seconds=LEASE.total_seconds() + max(0, -step))
    passed += max(0, -step)
    await reaper.tick()
    assert [worker.id for worker in await store.leases.workers()] == [living.id]
    assert (await living.succeed(kept)).refused == frozenset()


async def test_a_clock_that_jumps_ends_no_run_that_its_worker_can_still_stop(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine slept, or the database's clock was put forward: of its minute the run has had a second."""
    passed = 1000.0
    monkeypatch.setattr(clock_guard, "monotonic", lambda: passed)
    worker = await hand(store)
    await submit(store, job(timeout_ms=60_000), job(timeout_ms=60_000))
    first, second = await worker.claim()
    reaper = engine_reaper.Reaper(store, lease=LEASE)
    await reaper.tick()
    time.advance(hours=1)
    passed += 1
    await reaper.tick()
    await store.leases.renew(worker.id, LEASE, [1])
    for _ in range(2):
        time.advance(seconds=LEASE.total_seconds() / 2)
        passed += LEASE.total_seconds() / 2
        await store.leases.renew(worker.id, LEASE, [1])
    await reaper.tick()
    # A node that has seen nothing of the jump is no stricter.
    await engine_reaper.Reaper(store, lease=LEASE).tick()
    assert (await store.reads.run(TENANT, first.run_id)).state is RunState.RUNNING
    assert (await worker.succeed(first)).refused == frozenset()
    # A worker that does not stop it in that time never will.
    await store.leases.renew(worker.id, timedelta(hours=1), [1])
    time.advance(minutes=2)
    passed += 120
    await reaper.tick()
    assert (await store.reads.run(TENANT, second.run_id)).failure is FailureClass.TIMEOUT


@pytest.mark.parametrize("back", [False, True], ids=["forward", "and back again"])
async def test_a_run_that_begins_after_a_jump_has_its_own_time(store: Store, time: Time, back: bool) -> None:
    worker = await hand(store)
    time.advance(hours=1)
    await store.leases.renew(worker.id, LEASE, [])
    if back:
        time.advance(hours=-1)
    await store.leases.renew(worker.id, timedelta(days=1), [])
    await submit(store, job(timeout_ms=10_000))
    run = await worker.claim_one()
    time.advance(seconds=10 + GRACE.total_seconds())
    assert await reap(store) == 0
    time.advance(seconds=0.001)
    assert await reap(store) == 1
    assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT
