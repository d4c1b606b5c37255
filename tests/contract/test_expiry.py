"""`expires_in`: a run that has not started in time is never started, and ends as SKIPPED with the reason."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from duetime.engine.dealer import Dealer
from duetime.engine.reaper import judge
from duetime.model.attempt import Claimed
from duetime.model.dependency import DependsOn, Rule, Wanted
from duetime.model.firing import Backfill
from duetime.model.job import NewJob, Options, decode_options, encode_options
from duetime.model.run import RunState
from duetime.model.schedule import NOW, After, Cron, Once, Schedule
from duetime.store.protocol.store import Store
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.contract.hands import TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import START, Time, World
from tests.support.waiting import eventually

LONG = timedelta(days=30)
HOURLY = Cron("0 * * * *")
EXPIRED = (RunState.SKIPPED, "expired: not started within 10m")


def expiring(schedule: Schedule = NOW, **options: Any) -> NewJob:
    return job(schedule, options=encode_options(Options(expires_in=600.0, **options)))


def after_the_end_of(parent: NewJob) -> NewJob:
    """A job that waits for another, however that ends."""
    waits = DependsOn((parent.id,), Rule(wanted=Wanted.FINISHED))
    return msgspec.structs.replace(job(task="count"), depends_on=waits)


async def begin(worker: Hand) -> list[Claimed]:
    """Claim as a server does for a remote worker; the runs that the worker starts."""
    dealer = Dealer(worker.store, timedelta(seconds=1))
    return [run for _, run in await dealer.begin(worker.id, await worker.claim())]


async def ended(store: Store, run_id: UUID | None) -> tuple[RunState, str | None]:
    assert run_id is not None
    run = await store.reads.run(TENANT, run_id)
    if run.state is RunState.SKIPPED:
        assert (run.attempt, run.lost, run.attempts) == (0, 0, ()), "it was not tried"
    return run.state, run.error


@pytest.mark.parametrize("minutes", [0, 10])
async def test_a_run_that_starts_in_time_runs(store: Store, time: Time, minutes: int) -> None:
    worker = await hand(store, LONG)
    await submit(store, expiring())
    time.advance(minutes=minutes)
    assert len(await begin(worker)) == 1


async def test_a_run_that_has_not_started_in_time_is_skipped(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    late = await submit(store, expiring())
    time.advance(minutes=10, seconds=1)
    fresh = await submit(store, expiring())
    assert [run.run_id for run in await begin(worker)] == [fresh.run_id]
    assert await ended(store, late.run_id) == EXPIRED


async def test_a_worker_at_the_store_starts_none_that_has_expired(store: Store, time: Time) -> None:
    ran: list[str] = []

    async def greet(name: str) -> None:
        ran.append(name)

    late = await submit(store, job(args=b'{"name":"late"}', options=expiring().options))
    time.advance(hours=1)
    await submit(store, job(args=b'{"name":"fresh"}', options=expiring().options))
    limits = WorkerLimits(lease=LONG, heartbeat=LONG / 4)
    worker = Worker(StoreSource(store), {"greet": define("greet", greet)}, limits)
    working = asyncio.create_task(worker.run())
    await eventually(lambda: worker.completed == 2)
    worker.stop()
    await working
    assert ran == ["fresh"]
    assert await ended(store, late.run_id) == EXPIRED


async def test_a_one_off_expires_after_its_moment(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    submitted = [await submit(store, expiring(Once(START + timedelta(hours=hours)))) for hours in (1, 2)]
    time.advance(hours=2)
    await fire(store)
    (run,) = await begin(worker)
    assert run.job_id == submitted[1].job_id
    (late,) = await store.reads.runs_of_job(TENANT, submitted[0].job_id)
    assert (late.state, late.error) == EXPIRED


@pytest.mark.parametrize("jitter", [0.0, 300.0])
async def test_each_occurrence_expires_after_its_own_moment(store: Store, time: Time, jitter: float) -> None:
    worker = await hand(store, LONG)
    submitted = await submit(store, expiring(HOURLY, jitter=jitter))
    for _ in range(3):
        time.advance(hours=1)
        await fire(store)
    time.advance(minutes=7)
    (run,) = await begin(worker)
    assert run.due_at >= START + timedelta(hours=3)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert [(each.state, each.error) for each in runs if each.id != run.run_id] == [EXPIRED] * 2


@pytest.mark.parametrize("how", ["retry", "snooze"])
async def test_a_run_that_has_started_once_does_not_expire(store: Store, time: Time, how: str) -> None:
    worker = await hand(store, LONG)
    await submit(store, expiring(name="Café", tags=("a", "expires_in")))
    for _ in range(3):
        (run,) = await begin(worker)
        await (worker.retry(run) if how == "retry" else worker.snooze(run))
        time.advance(hours=1)
    (run,) = await begin(worker)
    options = decode_options(run.options)
    assert (options.name, options.tags) == ("Café", ("a", "expires_in"))


@pytest.mark.parametrize("how", ["hand back", "release"])
async def test_a_run_that_was_given_back_unstarted_still_expires(store: Store, time: Time, how: str) -> None:
    worker = await hand(store, LONG)
    submitted = await submit(store, expiring())
    (run,) = await begin(worker)
    if how == "release":
        await store.claims.release(worker.id, [worker.claim_no])
    else:
        await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
    time.advance(minutes=11)
    assert await begin(worker) == []
    assert await ended(store, submitted.run_id) == EXPIRED


async def test_an_expired_run_gives_back_its_key(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    limits: dict[str, Any] = {"concurrency_key": "k", "rate_key": "r", "rate": "100/s"}
    first = await submit(store, expiring(**limits))
    parked = await submit(store, expiring(**limits))
    (run,) = await begin(worker)
    assert run.run_id == first.run_id
    assert await begin(worker) == []
    time.advance(minutes=11)
    last = await submit(store, expiring(**limits))
    await worker.succeed(run)
    begun: list[Claimed] = []
    for _ in range(3):
        begun += await begin(worker)
        time.advance(seconds=1)
    assert [run.run_id for run in begun] == [last.run_id]
    assert await ended(store, parked.run_id) == EXPIRED


async def test_the_next_occurrence_in_the_queue_follows_an_expired_one(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    submitted = await submit(store, expiring(HOURLY, overlap="queue"))
    for _ in range(2):
        time.advance(hours=1)
        await fire(store)
    assert await begin(worker) == []
    await store.firing.unblock(100)
    (run,) = await begin(worker)
    assert run.due_at == START + timedelta(hours=2)
    states = [run.state for run in await store.reads.runs_of_job(TENANT, submitted.job_id)]
    assert sorted(states) == [RunState.RUNNING, RunState.SKIPPED]


async def test_what_depends_on_an_expired_run_goes_on(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    parent = expiring()
    await submit(store, parent)
    child = after_the_end_of(parent)
    await submit(store, child)
    time.advance(minutes=11)
    assert await begin(worker) == []
    await store.graphs.settle(100)
    (run,) = await begin(worker)
    assert run.job_id == child.id


async def test_a_run_after_another_expires_after_the_end_of_that_one(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    parent = await submit(store, job(Cron("0 0 * * *")))
    follower = await submit(store, expiring(After(parent.job_id, "any")))
    time.advance(days=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await store.graphs.settle(100)
    time.advance(minutes=11)
    assert await begin(worker) == []
    (run,) = await store.reads.runs_of_job(TENANT, follower.job_id)
    assert (run.state, run.error) == EXPIRED


@pytest.mark.parametrize("how", ["trigger", "backfill", "repeat"])
async def test_a_run_that_a_user_asks_for_does_not_expire(store: Store, time: Time, how: str) -> None:
    worker = await hand(store, LONG)
    submitted = await submit(store, expiring(Cron("0 0 1 1 *")))
    if how == "trigger":
        await store.control.trigger_job(TENANT, submitted.job_id, b"nonce")
    elif how == "backfill":
        await store.control.backfill_job(
            TENANT, submitted.job_id, Backfill([START - timedelta(days=3)], 10.0), b"nonce"
        )
    else:
        late = await submit(store, expiring())
        time.advance(minutes=11)
        assert await begin(worker) == []
        assert late.run_id is not None
        await store.replay.retry_run(TENANT, late.run_id, b"nonce")
    time.advance(hours=1)
    assert len(await begin(worker)) == 1


async def reap(store: Store) -> int:
    return await store.reaping.reap(100, judge, timedelta(days=1))


@pytest.mark.parametrize("how", ["no worker", "parked", "given back", "paused"])
async def test_an_expired_run_ends_though_no_worker_claims_it(world: World, store: Store, time: Time, how: str) -> None:
    worker = await hand(store, LONG)
    if how == "parked":
        await submit(store, expiring(concurrency_key="k"))
        holder = await worker.claim_one()
    submitted = await submit(store, expiring(concurrency_key="k" if how == "parked" else None))
    if how == "paused":
        await store.queues.pause_queue(TENANT, "default")
    if how == "parked":
        assert await worker.claim() == []
    if how == "given back":
        await worker.claim_one()
        await store.claims.release(worker.id, [worker.claim_no])
    time.advance(minutes=9)
    later = await submit(store, expiring())
    plain = await submit(store, job())
    time.advance(minutes=2)
    assert await reap(store) == 0, "nothing was lost"
    assert submitted.run_id is not None
    run = await store.reads.run(TENANT, submitted.run_id)
    assert (run.state, run.error, run.worker_id) == (*EXPIRED, None)
    assert [(await ended(store, each.run_id))[0] for each in (later, plain)] == [RunState.PENDING] * 2
    if how == "parked":
        await worker.succeed(holder)
        assert await world.rows_of("holds") == 0


async def test_the_sweep_leaves_runs_that_have_started_or_were_asked_for(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    recurring = await submit(store, expiring(Cron("0 0 1 1 *")))
    await submit(store, *(expiring() for _ in range(3)))
    again, snoozed, running = await worker.claim()
    await worker.retry(again)
    await worker.snooze(snoozed)
    await store.control.trigger_job(TENANT, recurring.job_id, b"nonce")
    time.advance(hours=1)
    for _ in range(2):
        await reap(store)
    begun = {run.job_id for run in await begin(worker)}
    assert begun == {again.job_id, snoozed.job_id, recurring.job_id}
    assert (await ended(store, running.run_id))[0] is RunState.RUNNING


async def test_what_depends_on_a_run_that_no_worker_claimed_goes_on(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    parent = expiring()
    await submit(store, parent)
    child = after_the_end_of(parent)
    await submit(store, child)
    time.advance(minutes=11)
    await reap(store)
    await store.graphs.settle(100)
    assert (await worker.claim_one()).job_id == child.id


@pytest.mark.parametrize("options", [b'{"expires_in":600.0', b'{"expires_in":"soon"}', b'\xff"expires_in":1'])
async def test_options_that_no_node_can_read_stop_nothing(store: Store, time: Time, options: bytes) -> None:
    worker = await hand(store, LONG)
    await submit(store, job(task="count", options=options), job(task="count", options=options))
    first, _ = await worker.claim()
    await worker.snooze(first)
    await store.claims.release(worker.id, [worker.claim_no])
    late = await submit(store, expiring())
    time.advance(hours=1)
    await reap(store)
    assert await ended(store, late.run_id) == EXPIRED
