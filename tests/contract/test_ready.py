"""What becomes claimable is announced, whatever made it so; and what was announced can be claimed."""

from datetime import timedelta

import msgspec

from duetime.ids import new_id
from duetime.model.dependency import DependsOn, Rule
from duetime.model.edit import changes_for
from duetime.model.firing import Backfill
from duetime.model.job import Options, encode_options
from duetime.model.lane import Tier
from duetime.model.limits import QueueLimits
from duetime.model.lists import DeadFilter, ReplayPace
from duetime.model.schedule import Every
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.ready import Announcement
from duetime.store.protocol.store import Store
from tests.contract.announcements import Announcements
from tests.contract.hands import LEASE, STRANGER, TENANT, fire, hand, job, reap, submit
from tests.contract.test_graphs import graph
from tests.contract.worlds import Time
from tests.support.unclaimed import unclaimed

DAY = timedelta(days=1)


async def test_what_a_worker_gives_back_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    await submit(store, job())
    assert await announced.check() == 1
    run = await worker.claim_one()
    assert await announced.check() == 0
    await worker.retry(run, 5)
    assert await announced.check() == 1, "it will be ready soon"
    time.advance(seconds=5)
    run = await worker.claim_one()
    await announced.check()
    await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
    assert await announced.check() == 1
    await worker.claim_one()
    await announced.check()
    await store.claims.release(worker.id, [worker.claim_no])
    assert await announced.check() == 1
    await worker.claim_one()
    await announced.check()
    time.advance(seconds=60)
    await store.leases.renew(worker.id, LEASE, [])
    assert await announced.check() == 1, "it does not list the claim"
    await worker.claim_one()
    await announced.check()
    time.advance(seconds=60)
    await store.leases.renew_many([(worker.id, [])], LEASE)
    assert await announced.check() == 1
    await worker.claim_one()
    await announced.check()
    time.advance(seconds=60)
    await reap(store)
    assert await announced.check() == 1, "its worker is gone"


async def test_what_a_job_makes_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    made = await submit(store, job(Every(timedelta(hours=1))))
    assert await announced.check() == 0
    await store.control.trigger_job(TENANT, made.job_id, b"n")
    assert await announced.check() == 1
    moments = [time.now - timedelta(hours=hours) for hours in (1, 2)]
    await store.control.backfill_job(TENANT, made.job_id, Backfill(moments, 1.0), b"n")
    assert await announced.check() == 2
    await worker.claim()
    time.advance(hours=1)
    await fire(store)
    assert await announced.check() == 1
    await store.control.edit_job(TENANT, made.job_id, changes_for(job(Every(timedelta(hours=1)), tier=Tier.LOW)))
    assert await announced.check() == 1, "it is in another lane"


async def test_what_is_done_again_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.retry(run, 60)
    await announced.check()
    await store.replay.retry_run(TENANT, run.run_id, b"n")
    assert await announced.check() == 1, "it is ready sooner"
    run = await worker.claim_one()
    await worker.fail(run)
    await announced.check()
    await store.replay.retry_run(TENANT, run.run_id, b"n")
    assert await announced.check() == 1
    await worker.fail(await worker.claim_one())
    await announced.check()
    await store.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), b"o")
    time.advance(seconds=1)
    assert await announced.check() == 1


async def test_what_waited_for_other_runs_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    parent = await submit(store, job())
    await submit(store, msgspec.structs.replace(job(), depends_on=DependsOn((parent.job_id,), Rule())))
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", "a")))
    assert await announced.check() == 2
    await worker.succeed(*await worker.claim())
    assert await announced.check() == 0
    while await store.graphs.settle(100):
        pass
    assert await announced.check() == 2
    child = next(run for run in await worker.claim() if run.job_id == made.nodes[1].job_id)
    await worker.fail(child)
    await announced.check()
    await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
    assert await announced.check() == 1

    queue = encode_options(Options(overlap="queue"))
    await submit(store, job(Every(timedelta(minutes=1)), options=queue))
    for _ in range(2):
        time.advance(minutes=1)
        await fire(store)
    assert await announced.check() == 1
    await worker.succeed(*await worker.claim())
    await announced.check()
    await store.firing.unblock(100)
    assert await announced.check() == 1


async def test_what_waited_for_a_limit_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    keyed = encode_options(Options(concurrency_key="k", concurrency=1))
    await submit(store, job(options=keyed), job(options=keyed))
    await announced.check()
    run = await worker.claim_one()
    assert await announced.check() == 0
    await worker.succeed(run)
    assert await announced.check() == 1
    rated = encode_options(Options(rate_key="r", rate="1/h"))
    await submit(store, *(job(options=rated) for _ in range(3)))
    await worker.claim()
    await announced.check()
    time.advance(hours=-5)
    await store.clocks.shift_back()
    assert announced.heard, "the first of them is ready sooner"


async def announced_runs(store: Store) -> list[Announcement]:
    """All that wait, as they would be announced."""
    return [Announcement(run.run_id, run.lane_id) for run in await unclaimed(store)]


async def test_announced_runs_are_claimed_once_and_no_others(store: Store, time: Time) -> None:
    first, second = await hand(store), await hand(store)
    await submit(store, job(timeout_ms=5000), job(), job(tier=Tier.HIGH))
    chosen = sorted(await announced_runs(store))[1:]
    claimed = await store.claims.claim_announced(first.id, 1, [*chosen, *chosen])
    assert sorted((run.run_id, run.lane_id) for run in claimed) == chosen
    assert {(run.fence, run.attempt, run.started_at) for run in claimed} == {(1, 1, time.now)}
    again = await store.claims.claim_announced(first.id, 1, [])
    assert {run.run_id for run in again} == {run.run_id for run in claimed}, "the answer was lost on its way"
    assert await store.claims.claim_announced(second.id, 1, chosen) == [], "it was announced twice"
    assert len(await second.claim()) == 1, "the third waits in its lane"
    assert not (await first.succeed(*claimed)).refused
    assert await store.claims.claim_announced(second.id, 5, chosen) == [], "they have ended"


async def test_an_announced_run_starts_only_in_the_lane_that_it_was_announced_in(store: Store, time: Time) -> None:
    worker, other = await hand(store), await hand(store, DAY)
    await submit(store, job())
    (announced,) = await announced_runs(store)
    await worker.claim_one()
    time.advance(seconds=60)
    await reap(store)
    (suspect,) = await announced_runs(store)
    assert suspect.run_id == announced.run_id
    assert suspect.lane_id != announced.lane_id
    assert await store.claims.claim_announced(other.id, 1, [announced]) == [], "it would bypass its trial"
    assert len(await store.claims.claim_announced(other.id, 2, [suspect])) == 1


async def test_an_announced_run_that_is_not_ready_is_left(store: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    await submit(store, job())
    await worker.retry(await worker.claim_one(), 60)
    (announced,) = await announced_runs(store)
    assert await store.claims.claim_announced(worker.id, 8, [announced]) == []
    time.advance(seconds=60)
    assert len(await store.claims.claim_announced(worker.id, 9, [announced])) == 1


async def test_announced_runs_keep_to_limits(store: Store) -> None:
    worker = await hand(store)
    keyed = encode_options(Options(concurrency_key="k", concurrency=1))
    await submit(store, job(options=keyed), job(options=keyed), job(), job())
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running=2))
    waiting = await announced_runs(store)
    with_key = {lane.id for lane in await store.claims.lanes() if lane.key.keyed}
    (first,) = await store.claims.claim_announced(worker.id, 1, [run for run in waiting if run.lane_id in with_key])
    assert first.lane_id in with_key
    assert sorted(await announced_runs(store)) == sorted(run for run in waiting if run.lane_id not in with_key)
    (second,) = await store.claims.claim_announced(worker.id, 2, await announced_runs(store))
    assert await store.claims.claim_announced(worker.id, 3, await announced_runs(store)) == []
    await worker.succeed(second)
    assert len(await store.claims.claim_announced(worker.id, 4, await announced_runs(store))) == 1


async def test_announced_runs_are_for_workers_that_may_claim_them(store: Store, time: Time) -> None:
    stranger = WorkerInfo(new_id(), "remote", ("greet",), (), 5, STRANGER)
    await store.leases.register(stranger, DAY)
    elsewhere = WorkerInfo(new_id(), "remote", ("greet",), ("other",), 5, TENANT)
    await store.leases.register(elsewhere, DAY)
    gone = await hand(store)
    await submit(store, job())
    announced = await announced_runs(store)
    time.advance(seconds=60)
    for worker_id in (stranger.id, elsewhere.id, gone.id, new_id()):
        assert await store.claims.claim_announced(worker_id, 1, announced) == []
    assert await announced_runs(store) == announced
    assert await store.claims.claim_announced((await hand(store)).id, 1, [Announcement(announced[0].run_id, 999)]) == []
    assert len(await store.claims.claim_announced((await hand(store)).id, 1, announced)) == 1
