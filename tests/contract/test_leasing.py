"""Leases: begun, renewed, over; and claims whose answer was lost."""

import asyncio
from datetime import timedelta

import pytest

from duetime.errors import LeaseLost
from duetime.ids import new_id
from duetime.model.run import RunState
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, Hand, hand, job, reap, submit
from tests.contract.worlds import Time


async def test_a_worker_is_listed_as_it_registered(store: Store, time: Time) -> None:
    info = WorkerInfo(new_id(), "box-1", ("greet", "count"), ("default", "slow"), 20, version="duetime 1.2")
    assert await store.leases.register(info, LEASE) == time.now + LEASE
    (found,) = await store.leases.workers()
    assert (found.id, found.name, found.tasks, found.queues, found.slots) == (
        info.id,
        "box-1",
        ("greet", "count"),
        ("default", "slow"),
        20,
    )
    assert (found.started_at, found.lease_until) == (time.now, time.now + LEASE)
    assert (found.version, found.heard_at) == ("duetime 1.2", time.now)
    time.advance(seconds=7)
    await store.leases.renew(info.id, LEASE, [])
    (found,) = await store.leases.workers()
    assert (found.started_at, found.heard_at) == (time.now - timedelta(seconds=7), time.now)


async def test_others_see_which_streams_a_worker_consumes(store: Store) -> None:
    one, other = await hand(store), await hand(store)
    await store.leases.record_consumed(one.id, {"mail", "calls"})
    await store.leases.record_consumed(other.id, {"mail"})
    await store.leases.record_consumed(other.id, ())
    await store.leases.record_consumed(new_id(), {"mail"})  # a worker that was reaped
    await store.leases.renew(one.id, LEASE, ())
    found = {each.id: each.consumes for each in await store.leases.workers()}
    assert found == {one.id: ("calls", "mail"), other.id: ()}
    assert (await store.leases.worker(one.id)).consumes == ("calls", "mail")


async def test_renewing_extends_the_lease_from_now(store: Store, time: Time) -> None:
    worker = await hand(store)
    time.advance(seconds=29)
    renewal = await store.leases.renew(worker.id, LEASE, [])
    assert (renewal.lease_until, renewal.cancelled, renewal.freed) == (time.now + LEASE, (), 0)
    time.advance(seconds=29)
    assert (await store.leases.renew(worker.id, LEASE, [])).lease_until == time.now + LEASE


async def test_a_lease_that_is_over_is_renewed_until_the_worker_is_reaped(store: Store, time: Time) -> None:
    """A clock that steps forward makes every lease look over: a living worker renews, and loses nothing."""
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    time.advance(minutes=5)
    assert await worker.claim() == [], "nothing is claimed before the lease is renewed"
    assert (await store.leases.renew(worker.id, LEASE, [1])).lease_until == time.now + LEASE
    assert await reap(store) == 0
    assert (await worker.succeed(run)).refused == frozenset()


@pytest.mark.parametrize("holds", [True, False], ids=["with runs", "without runs"])
async def test_a_worker_that_was_reaped_cannot_renew(store: Store, time: Time, holds: bool) -> None:
    worker, other = await hand(store), await hand(store, timedelta(hours=1))
    if holds:
        await submit(store, job())
        await worker.claim_one()
    time.advance(seconds=30)
    assert await reap(store) == holds
    with pytest.raises(LeaseLost):
        await store.leases.renew(worker.id, LEASE, [])
    with pytest.raises(LeaseLost):
        await store.leases.renew(new_id(), LEASE, [])
    assert [found.id for found in await store.leases.workers()] == [other.id]


async def test_renewing_and_reaping_at_once_agree(store: Store, other: Store, time: Time) -> None:
    """Either the worker was reaped, and its renewal refused, or it renewed in time and keeps its runs."""
    workers = [await hand(store) for _ in range(8)]
    await submit(store, *(job() for _ in range(8)))
    runs = {worker.id: (await worker.claim(1))[0] for worker in workers}
    time.advance(seconds=31)
    answers = await asyncio.gather(
        *(store.leases.renew(worker.id, LEASE, [1]) for worker in workers[:4]),
        reap(other),
        *(store.leases.renew(worker.id, LEASE, [1]) for worker in workers[4:]),
        return_exceptions=True,
    )
    reaped = answers.pop(4)
    refused = [worker for worker, answer in zip(workers, answers, strict=True) if isinstance(answer, LeaseLost)]
    assert reaped == len(refused)
    for worker in workers:
        run = await store.reads.run(TENANT, runs[worker.id].run_id)
        assert (run.state is RunState.RUNNING) == (worker not in refused)


async def test_a_worker_that_has_left_is_not_listed(store: Store) -> None:
    worker, other = await hand(store), await hand(store)
    await store.leases.leave(worker.id)
    await store.leases.leave(worker.id)
    assert [found.id for found in await store.leases.workers()] == [other.id]
    with pytest.raises(LeaseLost):
        await store.leases.renew(worker.id, LEASE, [])


async def test_a_claim_whose_answer_was_lost_is_freed_unspent(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(4)))
    held = await worker.claim(2)
    lost_answer = await worker.claim(2)
    for _ in range(6):
        time.advance(seconds=5)
        assert (await store.leases.renew(worker.id, LEASE, [1])).freed == 0
    time.advance(seconds=5)
    assert (await store.leases.renew(worker.id, LEASE, [1])).freed == 2
    assert (await store.leases.renew(worker.id, LEASE, [1])).freed == 0
    for run in lost_answer:
        found = await store.reads.run(TENANT, run.run_id)
        assert (found.state, found.attempt, found.lost, found.fence) == (RunState.PENDING, 0, 0, 1)
        assert (found.due_at, found.ready_at) == (run.due_at, time.now)
        assert found.attempts == ()
    for run in held:
        assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RUNNING
    again = await worker.claim()
    assert {run.run_id for run in again} == {run.run_id for run in lost_answer}
    assert {(run.fence, run.attempt) for run in again} == {(2, 1)}


async def test_a_late_completion_of_a_freed_run_is_refused(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    time.advance(seconds=20)
    await store.leases.renew(worker.id, LEASE, [])
    time.advance(seconds=20)
    assert (await store.leases.renew(worker.id, LEASE, [])).freed == 1
    assert (await worker.succeed(run)).refused == {run.run_id}


async def test_another_workers_claims_are_not_freed(store: Store, time: Time) -> None:
    worker, other = await hand(store), await hand(store, timedelta(hours=1))
    await submit(store, job())
    run = await other.claim_one()
    time.advance(seconds=20)
    await store.leases.renew(worker.id, LEASE, [])
    time.advance(seconds=20)
    assert (await store.leases.renew(worker.id, LEASE, [])).freed == 0
    assert (await store.reads.run(TENANT, run.run_id)).worker_id == other.id


async def test_a_heartbeat_tells_what_shall_be_stopped_while_it_is_held(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job(), job())
    first, second = await worker.claim()
    await store.control.cancel_run(TENANT, first.run_id)
    assert (await store.leases.renew(worker.id, LEASE, [1])).cancelled == (first.run_id,)
    assert await store.leases.cancellations(worker.id) == (first.run_id,)
    assert await store.leases.cancellations(new_id()) == ()
    await worker.succeed(first, second)
    assert await store.leases.cancellations(worker.id) == ()
    assert (await store.leases.renew(worker.id, LEASE, [])).cancelled == ()


async def test_a_freed_run_that_shall_be_cancelled_ends(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await store.control.cancel_run(TENANT, run.run_id)
    time.advance(seconds=20)
    await store.leases.renew(worker.id, LEASE, [])
    time.advance(seconds=20)
    assert (await store.leases.renew(worker.id, LEASE, [])).freed == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED
    assert await Hand(store).claim() == []


async def test_registering_again_begins_a_new_lease(store: Store, time: Time) -> None:
    worker = await hand(store)
    time.advance(minutes=5)
    await worker.register()
    assert (await store.leases.renew(worker.id, LEASE, [])).lease_until == time.now + LEASE
    assert len(await store.leases.workers()) == 1
