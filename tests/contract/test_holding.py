"""What a server asks about the workers that it speaks for."""

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.run import RunState
from duetime.model.worker import WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, failed, hand, job, retried, submit, succeeded


async def test_a_worker_is_read_back_with_its_tenant(store: Store) -> None:
    key_id, token_hash = new_id(), bytes(32)
    info = WorkerInfo(
        new_id(), "remote", ("count", "greet"), ("mail",), 5, TENANT, key_id=key_id, token_hash=token_hash
    )
    lease_until = await store.leases.register(info, LEASE)
    worker = await store.leases.worker(info.id)
    assert (worker.id, worker.name, worker.tasks, worker.queues) == (info.id, "remote", info.tasks, ("mail",))
    assert (worker.slots, worker.tenant_id, worker.lease_until) == (5, TENANT, lease_until)
    assert (worker.key_id, worker.token_hash) == (key_id, token_hash)
    await store.leases.leave(info.id)
    with pytest.raises(NotFound):
        await store.leases.worker(info.id)


async def test_held_runs_are_as_they_were_claimed(store: Store) -> None:
    worker, other = await hand(store), await hand(store)
    await submit(store, job(options=b'{"at_most_once":true}'), job(timeout_ms=500))
    claimed = await worker.claim()
    run_ids = [run.run_id for run in claimed]
    held = await store.leases.held_runs(worker.id, [*run_ids, new_id()])
    assert sorted(held, key=lambda run: run.run_id) == sorted(claimed, key=lambda run: run.run_id)
    assert await store.leases.held_runs(other.id, run_ids) == []
    await worker.succeed(claimed[0])
    assert [run.run_id for run in await store.leases.held_runs(worker.id, run_ids)] == [claimed[1].run_id]
    assert await store.leases.held_runs(worker.id, []) == []


async def test_cancellations_of_many_workers(store: Store) -> None:
    first, second, idle = await hand(store), await hand(store), await hand(store)
    held = {}
    for worker in (first, second):
        await submit(store, job())
        held[worker.id] = (await worker.claim_one()).run_id
    everybody = [first.id, second.id, idle.id]
    assert await store.leases.cancellations_of(everybody) == {}
    await store.control.cancel_run(TENANT, held[first.id])
    await store.control.cancel_run(TENANT, held[second.id])
    assert await store.leases.cancellations_of(everybody) == {worker: (run_id,) for worker, run_id in held.items()}
    assert await store.leases.cancellations_of([second.id]) == {second.id: (held[second.id],)}
    assert await store.leases.cancellations_of([]) == {}


async def test_reports_of_many_workers_take_effect_together(store: Store) -> None:
    first, second, third = await hand(store), await hand(store), await hand(store)
    held = []
    for worker in (first, second, third):
        await submit(store, job(), job())
        held.append(await worker.claim())
    answers = await store.completions.complete_many(
        [
            (first.id, [succeeded(run) for run in held[0]], [first.claim_no]),
            (second.id, [failed(held[1][0]), retried(held[1][1])], []),
            (third.id, [succeeded(run) for run in held[0]], []),
            (third.id, [succeeded(held[2][0], result=b"1")], []),
        ]
    )
    assert answers == [
        frozenset(),
        frozenset(),
        frozenset(run.run_id for run in held[0]),
        frozenset(),
    ]
    states = [(await store.reads.run(TENANT, run.run_id)).state for runs in held for run in runs]
    ended, waiting = RunState.SUCCEEDED, RunState.RETRYING
    assert states == [ended, ended, RunState.FAILED, waiting, ended, RunState.RUNNING]
    assert await store.completions.complete_many([]) == []
