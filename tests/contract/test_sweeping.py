"""The sweep: a running run is always found, whatever the tables say that only help to find it."""

import asyncio
from datetime import timedelta

import pytest

from duetime.engine.reaper import judge as judge_as_the_engine_does
from duetime.model.attempt import AttemptState
from duetime.model.failure import FailureClass
from duetime.model.job import Options, encode_options
from duetime.model.run import RunState
from duetime.store.protocol.store import Store
from tests.contract.hands import GRACE, LEASE, TENANT, Hand, hand, job, reap, submit, succeeded
from tests.contract.test_handing_over import over
from tests.contract.worlds import Time, World

LONG = timedelta(hours=1)
ONE_AT_A_TIME = encode_options(Options(concurrency_key="k", concurrency=1))
AT_MOST_ONCE = encode_options(Options(at_most_once=True))

HOWS = ["it was closed too early", "through a server", "its rows are gone"]


async def forget_claim(world: World, worker: Hand, how: str) -> None:
    """The store knows the worker's claim no more, while it holds the runs of it."""
    if how == "its rows are gone":
        await world.lose_claims(worker.id)
    elif how == "through a server":
        await world.store.completions.complete_many([(worker.id, [], [worker.claim_no])])
    else:
        await worker.complete(closed=[worker.claim_no])


@pytest.mark.parametrize("how", HOWS)
async def test_a_run_whose_worker_left_is_freed_though_its_claim_is_gone(
    world: World, store: Store, time: Time, how: str
) -> None:
    worker, other = await hand(store), await hand(store, LONG)
    await submit(store, job(options=ONE_AT_A_TIME), job(options=ONE_AT_A_TIME))
    (first,) = await worker.claim()
    await forget_claim(world, worker, how)
    await store.leases.leave(worker.id)
    time.advance(seconds=6)
    assert await reap(store) == 1
    run = await store.reads.run(TENANT, first.run_id)
    assert (run.state, run.lost, run.failure) == (RunState.RETRYING, 1, FailureClass.LOST)
    # Its key is free again, for the one and then for the other.
    for _ in range(2):
        again = await other.claim_one()
        assert not (await other.succeed(again)).refused
    assert await world.rows_of("claims") == 2, "what the other worker has not closed"


@pytest.mark.parametrize("how", HOWS)
async def test_a_living_worker_that_holds_it_keeps_it(world: World, store: Store, time: Time, how: str) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await forget_claim(world, worker, how)
    for _ in range(5):
        time.advance(seconds=20)
        await store.leases.renew(worker.id, LEASE, [worker.claim_no])
        assert await reap(store) == 0
    assert not (await worker.complete(succeeded(run), closed=[worker.claim_no])).refused
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED
    # What the sweep has listed is forgotten too, once the worker does not name it any more.
    for _ in range(3):
        time.advance(seconds=20)
        await store.leases.renew(worker.id, LEASE, [])
        await reap(store)
    assert await world.rows_of("claims") == 0


@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize(
    ("options", "state"), [(None, RunState.RETRYING), (AT_MOST_ONCE, RunState.FAILED)], ids=["", "at most once"]
)
async def test_a_living_worker_that_does_not_hold_it_loses_it_after_a_lease(
    world: World, store: Store, time: Time, how: str, options: bytes | None, state: RunState
) -> None:
    """It may have begun, so it counts as lost; a run that must not start twice ends."""
    worker = await hand(store, LONG)
    await submit(store, job(options=options))
    run = await worker.claim_one()
    await forget_claim(world, worker, how)
    time.advance(seconds=6)
    assert await reap(store) == 0
    time.advance(seconds=LEASE.total_seconds() + 1)
    assert (await store.leases.renew(worker.id, LEASE, [])).freed == 0
    assert await store.reaping.reap(100, judge_as_the_engine_does, GRACE) == 1
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.lost, found.attempts[0].state) == (state, 1, AttemptState.LOST)
    assert (found.error or "").startswith("its worker no longer held the run")
    assert len(await store.claims.lanes()) == 1, "no worker died of it: no trial"
    assert await world.rows_of("claims") == 0


async def test_a_claim_number_that_is_used_again_stands_for_the_new_runs_alone(store: Store, time: Time) -> None:
    worker = await hand(store, LONG)
    await submit(store, job())
    forgotten = await worker.claim_one()
    await worker.complete(closed=[worker.claim_no])
    await submit(store, job())
    fresh = [run for run in await worker.claim_again() if run.run_id != forgotten.run_id]
    assert len(fresh) == 1
    time.advance(seconds=6)
    await store.leases.renew(worker.id, LONG, [worker.claim_no])
    assert await reap(store) == 1
    assert (await store.reads.run(TENANT, forgotten.run_id)).state is RunState.RETRYING
    assert (await store.reads.run(TENANT, fresh[0].run_id)).state is RunState.RUNNING


@pytest.mark.parametrize("alive", [False, True], ids=["its worker is gone", "its worker lives"])
@pytest.mark.parametrize("how", HOWS)
async def test_a_request_to_cancel_ends_a_run_that_no_worker_holds(
    world: World, store: Store, time: Time, how: str, alive: bool
) -> None:
    worker = await hand(store, LONG)
    await submit(store, job())
    run = await worker.claim_one()
    await forget_claim(world, worker, how)
    if not alive:
        await world.lose_worker(worker.id)
    assert (await store.control.cancel_run(TENANT, run.run_id)).state is RunState.RUNNING
    for _ in range(3):
        time.advance(seconds=LEASE.total_seconds())
        if alive:
            await store.leases.renew(worker.id, LEASE, [])
        await store.reaping.reap(100, judge_as_the_engine_does, GRACE)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED
    assert await world.rows_of("cancels") == 0


@pytest.mark.parametrize("asked", [True, False], ids=["cancelled", "not cancelled"])
async def test_a_worker_may_say_that_it_does_not_hold_a_run_of_a_claim_that_it_names(
    world: World, store: Store, time: Time, asked: bool
) -> None:
    """The database went back behind the end of one run, while others of its claim go on."""
    worker = await hand(store, LONG)
    await submit(store, job(), job())
    ended, going_on = await worker.claim()
    if asked:
        await store.control.cancel_run(TENANT, ended.run_id)
    assert await store.leases.disown(worker.id, [ended.run_id]) == 1
    await store.leases.renew(worker.id, LONG, [worker.claim_no])
    assert await store.reaping.reap(100, judge_as_the_engine_does, GRACE) == 1
    found = await store.reads.run(TENANT, ended.run_id)
    assert found.state is (RunState.CANCELLED if asked else RunState.RETRYING)
    assert (await store.reads.run(TENANT, going_on.run_id)).state is RunState.RUNNING
    assert not (await worker.complete(succeeded(going_on), closed=[worker.claim_no])).refused
    other = await hand(store)
    assert await store.leases.disown(other.id, [ended.run_id]) == 0
    assert await world.rows_of("claims") == 0


@pytest.mark.parametrize(
    ("options", "state"), [(None, RunState.RETRYING), (AT_MOST_ONCE, RunState.FAILED)], ids=["", "at most once"]
)
async def test_a_claim_that_was_answered_and_is_not_listed_counts_as_lost(
    world: World, store: Store, time: Time, options: bytes | None, state: RunState
) -> None:
    """The database went back behind the end of its runs, and behind its own: they have begun."""
    worker, other = await hand(store, LONG), await hand(store, LONG)
    await submit(store, job(options=options))
    run = await worker.claim_one()
    await submit(store, job(options=options))
    unheard = await worker.claim_one()
    await submit(store, job(options=options))
    await other.claim_one()
    time.advance(seconds=LEASE.total_seconds() + 1)
    beats = {worker.id: 1, other.id: 1}
    renewals = await store.leases.renew_many([(worker.id, []), (other.id, [1])], LEASE, beats)
    assert [renewals[each].freed for each in beats] == [1, 0], "a worker begins no run of a claim without an answer"
    assert await store.reaping.reap(100, judge_as_the_engine_does, GRACE) == 1
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.lost) == (state, 1)
    assert (await store.reads.run(TENANT, unheard.run_id)).state is RunState.PENDING
    assert await world.rows_of("claims") == 1, "that of the other worker"
    assert (await store.leases.renew(other.id, LEASE, [], 1)).freed == 0
    assert await store.reaping.reap(100, judge_as_the_engine_does, GRACE) == 1


async def test_a_worker_learns_what_the_store_has_under_its_claims_besides_what_it_holds(store: Store) -> None:
    worker, other = await hand(store, LONG), await hand(store, LONG)
    await submit(store, *(job() for _ in range(7)))
    ended, lost, held, retried, *others = await worker.claim()
    first = worker.claim_no
    await submit(store, job())
    elsewhere = await worker.claim_one()
    await submit(store, job())
    theirs = await other.claim_one()
    await worker.succeed(ended)
    await worker.complete(over(others[0]))
    await store.completions.hand_back(worker.id, [(others[1].run_id, others[1].fence)])
    await worker.retry(retried, 60)
    held_ids = [held.run_id, others[2].run_id]
    assert await store.leases.unaccounted(worker.id, [first], held_ids) == [lost.run_id]
    assert await store.leases.unaccounted(worker.id, [first], [lost.run_id, *held_ids]) == []
    everything = [lost.run_id, *held_ids, elsewhere.run_id]
    assert await store.leases.unaccounted(worker.id, [first, worker.claim_no], []) == sorted(everything)
    assert await store.leases.unaccounted(worker.id, [], []) == []
    assert await store.leases.unaccounted(other.id, [first], everything) == [theirs.run_id]
    # What it disowns is under that claim no more, and so it is not named again before the reaper comes.
    await store.leases.disown(worker.id, [lost.run_id])
    assert await store.leases.unaccounted(worker.id, [first], held_ids) == []


async def test_a_run_past_its_timeout_is_taken_from_its_worker_though_its_claim_was_gone(
    world: World, store: Store, time: Time
) -> None:
    worker = await hand(store, LONG)
    await submit(store, job(timeout_ms=10_000))
    run = await worker.claim_one()
    await world.lose_claims(worker.id)
    time.advance(seconds=10 + GRACE.total_seconds() + 1)
    assert await reap(store) == 1
    assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT


async def test_handed_over_runs_are_no_strays_and_those_without_a_deadline_are_found(
    world: World, store: Store, time: Time
) -> None:
    worker = await hand(store, LONG)
    await submit(store, job(), job(timeout_ms=60_000))
    runs = {run.timeout_ms: run for run in await worker.claim()}
    await worker.complete(*(over(run) for run in runs.values()), closed=[worker.claim_no])
    await store.leases.leave(worker.id)
    time.advance(minutes=5)
    assert await reap(store) == 0
    await world.lose_handovers()
    time.advance(minutes=-4, seconds=-30)
    assert await reap(store) == 1, "nothing says how long it may take"
    time.advance(minutes=2)
    assert await reap(store) == 1, "this one has had its minute"
    for run in runs.values():
        assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT


async def test_a_run_that_started_after_the_clock_was_put_back_is_found(world: World, store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.claim_one()
    await world.lose_claims(worker.id)
    await world.lose_worker(worker.id)
    time.advance(hours=-1)
    assert await reap(store) == 1


async def test_a_run_from_before_the_clock_was_put_back_has_no_more_time_than_its_timeout(
    world: World, store: Store, time: Time
) -> None:
    worker = await hand(store, LONG)
    await submit(store, job(timeout_ms=10_000), job(timeout_ms=10_000))
    handed_over, held = await worker.claim()
    await worker.complete(over(handed_over))
    await world.lose_claims(worker.id)
    await world.lose_handovers()
    time.advance(hours=-1)
    assert await reap(store) == 0
    time.advance(seconds=10 + GRACE.total_seconds() + 1)
    await store.leases.renew(worker.id, LONG, [worker.claim_no])
    assert await reap(store) == 2
    for run in (handed_over, held):
        assert (await store.reads.run(TENANT, run.run_id)).failure is FailureClass.TIMEOUT


async def test_nodes_that_sweep_at_once_find_each_run_once(
    world: World, store: Store, other: Store, time: Time
) -> None:
    workers = [await hand(store) for _ in range(5)]
    await submit(store, *(job() for _ in range(50)))
    for worker in workers:
        await worker.claim(10)
        await world.lose_claims(worker.id)
        await world.lose_worker(worker.id)
    time.advance(seconds=6)
    judged = await asyncio.gather(*(reap((store, other)[turn % 2]) for turn in range(6)))
    while more := await reap(store):
        judged.append(more)
    assert sum(judged) == 50
    fresh = await hand(store)
    assert {(run.lost, run.fence) for run in await fresh.claim()} == {(1, 2)}


async def test_runs_that_are_claimed_and_completed_meanwhile_are_left_alone(
    store: Store, other: Store, time: Time
) -> None:
    worker = await hand(store, LONG)
    await submit(store, *(job() for _ in range(200)))
    time.advance(seconds=6)

    async def work() -> int:
        done = 0
        while runs := await worker.claim(7):
            done += len(runs) - len((await worker.succeed(*runs)).refused)
        return done

    async def sweep() -> int:
        return sum([await reap(other) for _ in range(30)])

    assert await asyncio.gather(work(), sweep()) == [200, 0]
