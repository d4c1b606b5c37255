"""What becomes claimable is announced, whatever made it so."""

from datetime import timedelta

import msgspec

from duetime.model.dependency import DependsOn, Rule
from duetime.model.edit import changes_for
from duetime.model.job import Options, encode_options
from duetime.model.lane import Tier
from duetime.model.lists import DeadFilter
from duetime.model.schedule import Every
from duetime.store.protocol.store import Store
from tests.contract.announcements import Announcements
from tests.contract.hands import LEASE, TENANT, fire, hand, job, reap, submit
from tests.contract.test_graphs import graph
from tests.contract.worlds import Time

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
    await store.hand_back(worker.id, [(run.run_id, run.fence)])
    assert await announced.check() == 1
    await worker.claim_one()
    await announced.check()
    await store.release(worker.id, [worker.claim_no])
    assert await announced.check() == 1
    await worker.claim_one()
    await announced.check()
    time.advance(seconds=60)
    await store.renew(worker.id, LEASE, [])
    assert await announced.check() == 1, "it does not list the claim"
    await worker.claim_one()
    await announced.check()
    time.advance(seconds=60)
    await store.renew_many([(worker.id, [])], LEASE)
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
    await store.trigger_job(TENANT, made.job_id, b"n")
    assert await announced.check() == 1
    moments = [time.now - timedelta(hours=hours) for hours in (1, 2)]
    await store.backfill_job(TENANT, made.job_id, moments, b"n", 1.0)
    assert await announced.check() == 2
    await worker.claim()
    time.advance(hours=1)
    await fire(store)
    assert await announced.check() == 1
    await store.edit_job(TENANT, made.job_id, changes_for(job(Every(timedelta(hours=1)), tier=Tier.LOW)))
    assert await announced.check() == 1, "it is in another lane"


async def test_what_is_done_again_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.retry(run, 60)
    await announced.check()
    await store.retry_run(TENANT, run.run_id, b"n")
    assert await announced.check() == 1, "it is ready sooner"
    run = await worker.claim_one()
    await worker.fail(run)
    await announced.check()
    await store.retry_run(TENANT, run.run_id, b"n")
    assert await announced.check() == 1
    await worker.fail(await worker.claim_one())
    await announced.check()
    await store.replay_dead_letters(TENANT, DeadFilter(), b"o")
    time.advance(seconds=1)
    assert await announced.check() == 1


async def test_what_waited_for_other_runs_is_announced(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store, DAY)
    parent = await submit(store, job())
    await submit(store, msgspec.structs.replace(job(), depends_on=DependsOn((parent.job_id,), Rule())))
    made = await store.submit_graph(TENANT, graph(("a", ""), ("b", "a")))
    assert await announced.check() == 2
    await worker.succeed(*await worker.claim())
    assert await announced.check() == 0
    while await store.settle(100):
        pass
    assert await announced.check() == 2
    child = next(run for run in await worker.claim() if run.job_id == made.nodes[1].job_id)
    await worker.fail(child)
    await announced.check()
    await store.rerun_graph(TENANT, made.item.id, b"n")
    assert await announced.check() == 1

    queue = encode_options(Options(overlap="queue"))
    await submit(store, job(Every(timedelta(minutes=1)), options=queue))
    for _ in range(2):
        time.advance(minutes=1)
        await fire(store)
    assert await announced.check() == 1
    await worker.succeed(*await worker.claim())
    await announced.check()
    await store.unblock(100)
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
    await store.shift_back()
    assert await announced.check() > 0
