"""Workers that left or were lost stay visible for a day: why they ended, and what became of their runs."""

from datetime import timedelta

from duetime.ids import new_id
from duetime.model.run import RunState
from duetime.model.worker import MOST_PAST_WORKERS, PAST_WORKERS, WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, STRANGER, TENANT, Hand, hand, job, reap, submit
from tests.contract.worlds import Time

MONTH = timedelta(days=30)


async def of_tenant(store: Store, tenant_id: int) -> Hand:
    worker = Hand(store)
    await store.leases.register(WorkerInfo(worker.id, "w", ("greet",), ("default",), 1, tenant_id), LEASE)
    return worker


async def test_a_lost_worker_stays_visible_with_the_fate_of_its_runs(store: Store, time: Time) -> None:
    worker, other = await hand(store), await hand(store, timedelta(hours=1))
    began = time.now
    await submit(store, job(), job(), job())
    first, second, third = await worker.claim()
    await worker.succeed(third)
    time.advance(seconds=31)
    assert await store.leases.past_workers(TENANT) == []
    await reap(store)
    (past,) = await store.leases.past_workers(TENANT)
    assert (past.id, past.name, past.lost, past.ended_at) == (worker.id, "hand", True, time.now)
    assert (past.heard_at, past.started_at, past.tasks) == (began, began, ("greet", "count"))
    assert past.held == 2, "what had ended was not held"
    assert {(run.run_id, run.task, run.state) for run in past.runs} == {
        (first.run_id, "greet", RunState.RETRYING),
        (second.run_id, "greet", RunState.RETRYING),
    }
    assert "no heartbeat" in past.reason
    time.advance(minutes=2)
    again = await other.claim()
    await other.succeed(again[0])
    (past,) = await store.leases.past_workers(TENANT)
    states = {run.run_id: run.state for run in past.runs}
    assert states[again[0].run_id] is RunState.SUCCEEDED


async def test_a_worker_that_leaves_is_not_lost(store: Store, time: Time) -> None:
    worker = await hand(store)
    await store.leases.leave(worker.id)
    await store.leases.leave(worker.id)
    (past,) = await store.leases.past_workers(TENANT)
    assert (past.id, past.lost, past.held, past.runs) == (worker.id, False, 0, ())
    time.advance(seconds=60)
    await reap(store)
    assert len(await store.leases.past_workers(TENANT)) == 1


async def test_no_tenant_sees_the_workers_or_runs_of_another(store: Store, time: Time) -> None:
    mine, theirs, shared = await of_tenant(store, TENANT), await of_tenant(store, STRANGER), await hand(store)
    strange = [job(tenant_id=STRANGER) for _ in range(12)]
    await submit(store, *strange, tenant_id=STRANGER)
    assert len(await shared.claim()) == 12
    await submit(store, job())
    await shared.claim_one()
    time.advance(seconds=31)
    await reap(store)
    assert {past.id for past in await store.leases.past_workers(TENANT)} == {mine.id, shared.id}
    assert {past.id for past in await store.leases.past_workers(STRANGER)} == {theirs.id, shared.id}
    seen = {past.id: past for past in await store.leases.past_workers(TENANT)}[shared.id]
    assert (seen.held, len(seen.runs)) == (1, 1), "not even a count of what others had there"
    seen = {past.id: past for past in await store.leases.past_workers(STRANGER)}[shared.id]
    assert (seen.held, len(seen.runs)) == (12, 10)


async def test_they_are_bounded_and_pruned(store: Store, time: Time) -> None:
    shared = await hand(store)
    await store.leases.leave(shared.id)
    for _ in range(MOST_PAST_WORKERS + 5):
        time.advance(seconds=1)
        await store.leases.leave((await of_tenant(store, STRANGER)).id)
    found = await store.leases.past_workers(STRANGER)
    assert len(found) == MOST_PAST_WORKERS
    assert [past.ended_at for past in found] == sorted((past.ended_at for past in found), reverse=True)
    assert found[0].ended_at == time.now
    assert [past.id for past in await store.leases.past_workers(TENANT)] == [shared.id], "each tenant has its own bound"
    time.advance(seconds=PAST_WORKERS.total_seconds() - 10)
    await store.pruning.prune(MONTH, MONTH)
    assert 0 < len(await store.leases.past_workers(STRANGER)) < MOST_PAST_WORKERS
    time.advance(seconds=11)
    await store.pruning.prune(MONTH, MONTH)
    assert await store.leases.past_workers(STRANGER) == []


async def test_a_worker_that_never_was_leaves_nothing(store: Store) -> None:
    await store.leases.leave(new_id())
    assert await store.leases.past_workers(TENANT) == []
