"""Limits: exact whichever worker claims, counted from what runs, and no run waits for ever or holds up others."""

from datetime import timedelta

import pytest

from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.edit import Changes
from duetime.model.job import Options, Submitted, encode_options
from duetime.model.limits import QueueLimits, parse_rate
from duetime.model.retry import RetryPolicy, Verdict
from duetime.model.run import Event
from duetime.model.schedule import Every
from duetime.model.tenant import NewTenant, TenantChange, TenantLimits
from duetime.model.worker import Seat
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, STRANGER, TENANT, Hand, fire, hand, job, reap, submit
from tests.contract.worlds import Time, World


def keyed(key: str, most: int = 1) -> bytes | None:
    return encode_options(Options(concurrency_key=key, concurrency=most))


def rated(key: str, rate: str) -> bytes | None:
    return encode_options(Options(rate_key=key, rate=rate))


async def limit(store: Store, running: int | None = None, rate: str | None = None) -> None:
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running, rate and parse_rate(rate)))


async def test_a_queue_runs_as_many_as_it_may(store: Store) -> None:
    await limit(store, 3)
    await submit(store, *(job() for _ in range(10)))
    one, two = await hand(store), await hand(store)
    first = await one.claim(2)
    assert len(first) == 2
    assert len(await two.claim()) == 1
    assert await one.claim() == []
    await one.succeed(*first)
    assert len(await two.claim()) == 2
    queue = await store.queues.queue(TENANT, "default")
    assert (queue.limits.running, queue.running, queue.depth.medium) == (3, 3, 5)


async def test_a_limit_that_is_lifted_holds_no_more(store: Store) -> None:
    await limit(store, 1)
    await submit(store, *(job() for _ in range(4)))
    worker = await hand(store)
    assert len(await worker.claim()) == 1
    await limit(store)
    assert len(await worker.claim()) == 3


async def test_other_queues_and_tenants_are_not_touched(store: Store) -> None:
    await store.tenants.create_tenant(NewTenant("stranger"))
    await limit(store, 1)
    await submit(store, job(), job(), job(queue="other"))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    assert len(await (await hand(store)).claim()) == 3


async def test_a_tenant_runs_as_many_as_it_may(store: Store) -> None:
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(running_runs=2)))
    await submit(store, job(), job(queue="a"), job(queue="b"), job(task="count"))
    worker = await hand(store)
    runs = await worker.claim()
    assert len(runs) == 2
    await worker.retry(runs[0], 60)
    assert len(await worker.claim()) == 1


async def test_what_runs_when_a_limit_is_set_counts(store: Store) -> None:
    await submit(store, *(job() for _ in range(30)))
    worker = await hand(store)
    running = await worker.claim(20)
    await limit(store, 5)
    assert (await store.queues.queue(TENANT, "default")).running == 20
    assert await worker.claim() == []
    await worker.succeed(*running[:16])
    assert len(await worker.claim()) == 1


async def test_what_a_tenant_runs_when_it_is_limited_counts(store: Store) -> None:
    await store.tenants.create_tenant(NewTenant("stranger"))
    await submit(store, *(job() for _ in range(4)), *(job(queue="a") for _ in range(4)))
    await submit(store, *(job(tenant_id=STRANGER) for _ in range(4)), tenant_id=STRANGER)
    worker = await hand(store)
    running = await worker.claim(2)
    assert len(running) == 6
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(running_runs=3)))
    assert len(await worker.claim()) == 2, "the other tenant's"
    await worker.succeed(*running)
    assert len(await worker.claim()) == 3


async def test_what_was_handed_over_when_a_limit_is_set_counts(store: Store) -> None:
    await submit(store, *(job() for _ in range(3)))
    worker = await hand(store)
    (run,) = await worker.claim(1)
    over = Verdict(Event.HAND_OVER, timedelta(hours=1))
    await worker.complete(Completion(run.run_id, run.fence, over, AttemptState.HANDED_OVER))
    await limit(store, 1)
    assert await worker.claim() == []


async def test_what_is_claimed_by_those_who_have_not_heard_of_a_limit_counts(
    store: Store, other: Store, time: Time
) -> None:
    await submit(store, *(job() for _ in range(10)))
    worker, unaware = await hand(store, timedelta(hours=1)), await hand(other, timedelta(hours=1))
    await other.claims.rules()
    running = await worker.claim(3)
    await limit(store, 4)
    more = await unaware.claim(4)
    assert more
    time.advance(minutes=1)
    assert await worker.claim() == []
    await unaware.succeed(*more)
    assert len(running) == 3
    assert len(await worker.claim()) == 1


@pytest.mark.parametrize(
    "way", ["succeed", "result", "fail", "retry", "hand_back", "release", "reap", "renew", "cancel"]
)
async def test_whatever_frees_a_slot_of_a_key_gives_it_to_the_next(store: Store, time: Time, way: str) -> None:
    once = encode_options(Options(concurrency_key="k", retry=RetryPolicy(retries=0, lost_retries=0)))
    ids = [(await submit(store, job(options=once))).run_id for _ in range(3)]
    worker = await hand(store)
    run = await worker.claim_one()
    assert run.run_id == ids[0]
    assert await (await hand(store)).claim() == []
    assert (await store.queues.queue(TENANT, "default")).held_back == 2
    await free_slot(store, time, worker, run, way)
    follower = await hand(store, timedelta(days=1))
    following = await follower.claim_one()
    # One that was not tried has its turn again.
    assert following.run_id == ids[0 if way in ("hand_back", "release", "renew") else 1]
    assert await (await hand(store)).claim() == []


async def free_slot(store: Store, time: Time, worker: Hand, run: Claimed, way: str) -> None:
    """End or interrupt an attempt in one of many ways: its limits have room again."""
    match way:
        case "succeed":
            await worker.succeed(run)
        case "result":
            await worker.succeed(run, result=b"1")
        case "fail":
            await worker.fail(run)
        case "retry":
            await worker.retry(run, 60)
        case "hand_back":
            await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
        case "release":
            await store.claims.release(worker.id, [worker.claim_no])
        case "reap":
            time.advance(seconds=31)
            assert await reap(store) == 1
        case "renew":
            time.advance(seconds=31)
            await store.leases.renew_many([(worker.id, [])], LEASE)
        case "cancel":
            await store.control.cancel_run(TENANT, run.run_id)
            await worker.retry(run)


async def test_a_key_may_run_more_than_one(store: Store) -> None:
    await submit(
        store, *(job(options=keyed("k", 3)) for _ in range(5)), *(job(options=keyed("l", 2)) for _ in range(5))
    )
    worker = await hand(store)
    assert len(await worker.claim()) == 5


async def test_a_full_key_stands_in_nobodys_way(store: Store) -> None:
    await submit(store, *(job(options=keyed("crowd")) for _ in range(1200)))
    await submit(store, job(options=keyed("alone")))
    worker = await hand(store)
    assert len(await worker.claim(5)) == 1
    assert len(await worker.claim(5)) == 1


async def test_a_run_that_waits_for_its_next_try_holds_no_slot(store: Store, time: Time) -> None:
    first, second = job(options=keyed("k")), job(options=keyed("k"))
    await submit(store, first)
    worker = await hand(store)
    await worker.retry(await worker.claim_one(), 5)
    await submit(store, second)
    assert (await worker.claim_one()).job_id == second.id
    time.advance(seconds=6)
    assert await worker.claim() == []


async def test_a_limited_run_spends_nothing(store: Store) -> None:
    await submit(store, job(options=keyed("k")))
    parked = await submit(store, job(options=keyed("k")))
    worker = await hand(store)
    run = await worker.claim_one()
    await worker.claim()
    assert parked.run_id is not None
    waiting = await store.reads.run(TENANT, parked.run_id)
    assert (waiting.attempt, waiting.fence, waiting.worker_id) == (0, 0, None)
    await worker.succeed(run)
    assert (await worker.claim_one()).attempt == 1


async def test_a_parked_run_can_be_cancelled(store: Store) -> None:
    await submit(store, job(options=keyed("k")))
    parked = await submit(store, job(options=keyed("k")))
    worker = await hand(store)
    run = await worker.claim_one()
    await worker.claim()
    assert parked.run_id is not None
    assert (await store.control.cancel_run(TENANT, parked.run_id)).state.is_end
    await worker.succeed(run)
    assert await worker.claim() == []


async def test_a_run_that_lost_its_worker_stays_on_trial_when_it_is_parked(store: Store, time: Time) -> None:
    await submit(store, job(options=keyed("k")))
    lost = await (await hand(store)).claim_one()
    time.advance(seconds=31)
    await reap(store)
    time.advance(hours=1)
    holder = job(options=keyed("k"))
    await submit(store, holder)
    worker = await hand(store, timedelta(days=1))
    lanes = {lane.id: lane.key for lane in await store.claims.lanes()}
    plain = [(lane_id, 1) for lane_id, key in lanes.items() if key.keyed and not key.trial]
    trial = [(lane_id, 1) for lane_id, key in lanes.items() if key.trial]
    (held,) = await store.claims.claim(worker.id, 101, plain)
    assert held.job_id == holder.id
    assert await store.claims.claim(worker.id, 102, trial) == []
    await worker.succeed(held)
    assert await store.claims.claim(worker.id, 103, plain) == []
    (again,) = await store.claims.claim(worker.id, 104, trial)
    assert again.run_id == lost.run_id


async def test_a_rate_is_never_exceeded_in_any_period(store: Store, time: Time) -> None:
    await limit(store, rate="3/m")
    await submit(store, *(job() for _ in range(20)))
    worker = await hand(store, timedelta(days=1))
    assert len(await worker.claim(2)) == 2
    time.advance(seconds=40)
    assert len(await worker.claim()) == 1
    time.advance(seconds=19)
    assert await worker.claim() == []
    time.advance(seconds=2)
    assert len(await worker.claim()) == 2
    assert await worker.claim() == []


async def test_a_rate_key_puts_runs_off_to_their_moments(store: Store, time: Time) -> None:
    await submit(store, *(job(options=rated("api", "2/10s")) for _ in range(6)), job(options=rated("other", "1/s")))
    worker = await hand(store, timedelta(days=1))
    assert len(await worker.claim()) == 3
    assert await worker.claim() == []
    started = 3
    for _ in range(60):
        time.advance(seconds=1)
        started += len(await worker.claim())
        if started == 7:
            break
    assert started == 7


async def waits_for(store: Store, time: Time, submitted: Submitted) -> float:
    """How many seconds from now a run is ready."""
    assert submitted.run_id is not None
    ready_at = (await store.reads.run(TENANT, submitted.run_id)).ready_at
    assert ready_at is not None
    return (ready_at - time.now).total_seconds()


async def test_nobody_waits_behind_those_who_are_gone(store: Store, time: Time) -> None:
    gone = [await submit(store, job(options=rated("k", "1/h"))) for _ in range(20)]
    worker = await hand(store, timedelta(days=9))
    await worker.succeed(await worker.claim_one())
    for one in gone[1:]:
        await store.control.cancel_job(TENANT, one.job_id)
    time.advance(minutes=30)
    late = await submit(store, job(options=rated("k", "1/h")))
    assert await worker.claim() == []
    time.advance(minutes=31)
    assert (await worker.claim_one()).job_id == late.job_id


async def test_those_who_stay_move_up(store: Store, time: Time) -> None:
    line = [await submit(store, job(options=rated("k", "1/h"))) for _ in range(20)]
    worker = await hand(store, timedelta(days=9))
    await worker.succeed(await worker.claim_one())
    for one in line[1:-1]:
        await store.control.cancel_job(TENANT, one.job_id)
    late = await submit(store, job(options=rated("k", "1/h")))
    assert await worker.claim() == []
    assert 3600 <= await waits_for(store, time, line[-1]) < 3700
    assert 7200 <= await waits_for(store, time, late) < 7400
    started = []
    for _ in range(3):
        time.advance(minutes=62)
        started += [run.job_id for run in await worker.claim()]
    assert started == [line[-1].job_id, late.job_id]


async def test_a_higher_rate_holds_for_those_who_wait_already(store: Store, time: Time) -> None:
    line = [await submit(store, job(options=rated("k", "1/h"))) for _ in range(4)]
    worker = await hand(store, timedelta(days=9))
    assert len(await worker.claim()) == 1
    late = await submit(store, job(options=rated("k", "60/h")))
    assert [run.job_id for run in await worker.claim()] == [line[1].job_id]
    started = []
    for _ in range(4):
        time.advance(seconds=62)
        started += [run.job_id for run in await worker.claim()]
    assert started == [line[2].job_id, line[3].job_id, late.job_id]


async def test_a_job_that_is_given_another_rate_is_decided_about_anew(store: Store, time: Time) -> None:
    often = await submit(store, job(Every(timedelta(minutes=1)), options=rated("k", "1/h")))
    worker = await hand(store, timedelta(days=9))
    for expected in (1, 0):
        time.advance(minutes=1)
        await fire(store)
        assert len(await worker.claim()) == expected
    await store.control.edit_job(TENANT, often.job_id, Changes(options={"rate": "60/h"}))
    assert len(await worker.claim()) == 1


async def test_remote_workers_obey_too(store: Store) -> None:
    await limit(store, 3)
    await submit(store, *(job(options=keyed(f"k{number % 2}", 2)) for number in range(10)))
    one, two = await hand(store), await hand(store)
    lanes = [(lane.id, 10) for lane in await store.claims.lanes()]
    dealt = await store.claims.claim_many([Seat(one.id, 1, 2), Seat(two.id, 1, 5)], lanes)
    assert (len(dealt[one.id]), len(dealt[two.id])) == (2, 1)
    again = await store.claims.claim_many([Seat(one.id, 1, 2), Seat(two.id, 2, 5)], lanes)
    assert [run.run_id for run in again[one.id]] == [run.run_id for run in dealt[one.id]]
    assert again[two.id] == []


async def test_asking_again_returns_the_same_runs(store: Store) -> None:
    await submit(store, *(job(options=keyed(f"k{number}")) for number in range(3)))
    worker = await hand(store)
    first = await worker.claim()
    assert len(first) == 3
    assert [run.run_id for run in await worker.claim_again()] == [run.run_id for run in first]


async def test_what_nobody_came_to_free_is_found(store: Store, time: Time) -> None:
    await submit(store, job(options=keyed("k")), job(options=keyed("k")))
    worker = await hand(store, timedelta(days=1))
    run = await worker.claim_one()
    await worker.claim()
    await store.queues.limit_queue(TENANT, "default", QueueLimits(5))
    await store.control.cancel_run(TENANT, run.run_id)
    assert await store.firing.unblock(100) == 0
    time.advance(seconds=10)
    assert await store.firing.unblock(100) == 0, "there is no room"
    await worker.succeed(run)
    assert len(await worker.claim()) == 1


async def test_keys_that_nobody_uses_are_forgotten(store: Store, time: Time) -> None:
    await submit(store, job(options=keyed("k")))
    worker = await hand(store, timedelta(days=1))
    await worker.succeed(await worker.claim_one())
    await store.pruning.prune(timedelta(days=30), timedelta(days=30))
    time.advance(hours=2)
    assert await store.pruning.prune(timedelta(days=30), timedelta(days=30)) >= 1
    await submit(store, job(options=keyed("k")))
    assert len(await worker.claim()) == 1


async def test_nothing_is_left_of_a_rate_that_nobody_uses(store: Store, world: World, time: Time) -> None:
    await submit(store, job(options=rated("k", "5/h")))
    worker = await hand(store, timedelta(days=9))
    await worker.succeed(await worker.claim_one())
    assert await world.rows_of("starts") == 1
    time.advance(hours=3)
    await store.pruning.prune(timedelta(days=30), timedelta(days=30))
    assert (await world.rows_of("limits"), await world.rows_of("starts")) == (0, 0)
