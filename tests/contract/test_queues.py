"""Queues that are paused, counted and resumed; tasks; and workers that are bound to a tenant."""

from collections.abc import Sequence
from datetime import timedelta
from itertools import product

import pytest

from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.lane import Tier
from duetime.model.limits import QueueLimits
from duetime.model.tenant import Depth, NewTenant, Queue, TaskInfo, TenantChange, TenantState
from duetime.model.worker import Seat, WorkerInfo
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


async def test_a_queue_exists_by_being_used_or_steered(store: Store, time: Time) -> None:
    await submit(store, job(queue="mail", tier=Tier.HIGH), job(queue="mail"), job(queue="mail", task="count"))
    await submit(store, job(queue="theirs", tenant_id=STRANGER), tenant_id=STRANGER)
    paused = await store.queues.pause_queue(TENANT, "sms")
    assert (paused.paused, paused.paused_at, paused.depth) == (True, time.now, Depth())
    mail, sms = await store.queues.queues(TENANT)
    assert (mail.name, mail.paused, mail.depth) == ("mail", False, Depth(1, 2, 0))
    assert (sms.name, sms.paused) == ("sms", True)
    assert await store.queues.queue(TENANT, "mail") == mail
    assert await store.queues.queue(TENANT, "nothing") == Queue(TENANT, "nothing")


async def test_what_waits_is_counted_up_to_a_cap(store: Store) -> None:
    await submit(store, *(job() for _ in range(5)))
    await (await hand(store)).claim(1)
    assert (await store.queues.queue(TENANT, "default")).depth == Depth(0, 4, 0)
    assert (await store.queues.queue(TENANT, "default", 3)).depth == Depth(0, 3, 0, capped=True)


async def test_the_lanes_of_a_paused_queue_are_told(store: Store, other: Store, time: Time) -> None:
    await submit(store, job(queue="mail"), job(queue="mail", tier=Tier.LOW), job(queue="sms"))
    await submit(store, job(queue="mail", tenant_id=STRANGER), tenant_id=STRANGER)
    mail = {lane.id for lane in await store.claims.lanes() if (lane.key.tenant_id, lane.key.queue) == (TENANT, "mail")}
    assert await store.claims.paused_lanes() == frozenset()
    first = await store.queues.pause_queue(TENANT, "mail")
    time.advance(seconds=5)
    assert await store.queues.pause_queue(TENANT, "mail") == first
    assert await other.claims.paused_lanes() == mail
    assert not (await store.queues.resume_queue(TENANT, "mail")).paused
    assert not (await store.queues.resume_queue(TENANT, "mail")).paused
    assert await other.claims.paused_lanes() == frozenset()


async def test_nothing_of_a_suspended_tenant_is_started(store: Store) -> None:
    made = await store.tenants.create_tenant(NewTenant("acme"))
    await submit(store, job(tenant_id=made.id), tenant_id=made.id)
    await submit(store, job())
    await store.tenants.update_tenant(made.id, TenantChange(state=TenantState.SUSPENDED))
    (lane,) = [lane.id for lane in await store.claims.lanes() if lane.key.tenant_id == made.id]
    assert await store.claims.paused_lanes() == {lane}


async def register(
    store: Store, tasks: Sequence[str] = ("greet",), queues: Sequence[str] = (), tenant_id: int | None = None
) -> WorkerInfo:
    worker = WorkerInfo(new_id(), "w", tuple(tasks), tuple(queues), 10, tenant_id)
    await store.leases.register(worker, LEASE)
    return worker


async def test_tasks_are_those_of_live_workers(store: Store, time: Time) -> None:
    await register(store, ("late",))
    time.advance(seconds=31)
    for _ in range(2):
        await register(store, ("greet", "count"))
    await register(store, ("greet",), ("mail",))
    await register(store, ("mine",), ("b", "a"), TENANT)
    await register(store, ("mine",), ("c",), TENANT)
    await register(store, ("theirs",), (), STRANGER)
    assert await store.queues.tasks(TENANT) == [
        TaskInfo("count", 2),
        TaskInfo("greet", 3),
        TaskInfo("mine", 2, ("a", "b", "c")),
    ]
    assert await store.queues.tasks(TENANT, "greet") == [TaskInfo("greet", 3)]
    assert await store.queues.tasks(TENANT, "theirs") == await store.queues.tasks(TENANT, "late") == []
    assert await store.queues.task_names(TENANT) == {"count", "greet", "mine"}
    assert await store.queues.task_names(STRANGER) == {"count", "greet", "theirs"}
    assert [task.name for task in await store.queues.tasks(STRANGER)] == ["count", "greet", "theirs"]


async def test_workers_are_listed_for_those_they_work_for(store: Store) -> None:
    shared, mine = await register(store), await register(store, tenant_id=TENANT)
    theirs = await register(store, tenant_id=STRANGER)
    assert {worker.id for worker in await store.leases.workers()} == {shared.id, mine.id, theirs.id}
    found = {worker.id: worker.tenant_id for worker in await store.leases.workers(TENANT)}
    assert found == {shared.id: None, mine.id: TENANT}


@pytest.mark.parametrize("limited", [False, True])
async def test_a_worker_that_is_bound_gets_nothing_of_others(store: Store, limited: bool) -> None:
    stranger = (await store.tenants.create_tenant(NewTenant("acme"))).id
    for tenant_id, queue in product((TENANT, stranger), ("default", "mail")) if limited else ():
        await store.queues.limit_queue(tenant_id, queue, QueueLimits(running=5))
    await submit(store, job(), job(queue="mail"))
    await submit(store, job(tenant_id=stranger), job(queue="mail", tenant_id=stranger), tenant_id=stranger)
    lanes = {lane.id: lane.key for lane in await store.claims.lanes()}
    takes = [(lane_id, 10) for lane_id in lanes]

    def keys(runs: Sequence[Claimed]) -> set[tuple[int, str]]:
        return {(lanes[run.lane_id].tenant_id, lanes[run.lane_id].queue) for run in runs}

    bound = await register(store, queues=("mail",), tenant_id=TENANT)
    assert keys(await store.claims.claim(bound.id, 1, takes)) == {(TENANT, "mail")}
    mine = await register(store, tenant_id=TENANT)
    assert keys((await store.claims.claim_many([Seat(mine.id, 1, 10)], takes))[mine.id]) == {(TENANT, "default")}
    theirs = await register(store, queues=("mail",), tenant_id=stranger)
    assert keys((await store.claims.claim_many([Seat(theirs.id, 1, 10)], takes))[theirs.id]) == {(stranger, "mail")}
    shared = await register(store, queues=("nowhere",))
    assert keys(await store.claims.claim(shared.id, 1, takes)) == {(stranger, "default")}
