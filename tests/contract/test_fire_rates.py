"""How often a tenant's schedules fire: above its rate they fire later, in order; the others do not wait for them."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import pytest

from duetime.model.firing import Decided, DueJob
from duetime.model.schedule import Every, Once
from duetime.model.tenant import DEFAULT_LIMITS, NO_LIMITS, NewTenant, TenantChange, TenantLimits
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, job, plan
from tests.contract.worlds import Time

MINUTE = timedelta(minutes=1)


@pytest.fixture
async def acme(store: Store) -> int:
    """A tenant that may fire ten times a second."""
    return (await store.tenants.create_tenant(NewTenant("acme", limits=TenantLimits(fires_per_second=10.0)))).id


async def _due(store: Store, time: Time, tenant_id: int, count: int) -> list[UUID]:
    """So many one-offs that are due one after the other, and have been for a while."""
    jobs = [job(Once(delay=MINUTE + place * timedelta(milliseconds=1)), tenant_id=tenant_id) for place in range(count)]
    await store.intake.submit(tenant_id, jobs)
    time.advance(minutes=2)
    return [each.id for each in jobs]


async def _fired(store: Store, tenant_id: int, jobs: Sequence[UUID]) -> int:
    return sum([len(await store.reads.runs_of_job(tenant_id, each)) for each in jobs])


async def test_a_rate_is_read_back_and_new_tenants_have_one(store: Store, acme: int) -> None:
    assert (await store.tenants.tenant_by_id(acme)).limits.fires_per_second == 10.0
    assert (await store.tenants.create_tenant(NewTenant("new"))).limits == DEFAULT_LIMITS
    assert DEFAULT_LIMITS.fires_per_second is not None
    changed = await store.tenants.update_tenant(acme, TenantChange(limits=TenantLimits(fires_per_second=0.5)))
    assert changed.limits.fires_per_second == 0.5
    assert (await store.tenants.tenant_by_id(TENANT)).limits.fires_per_second is None


async def test_fires_above_the_rate_come_later_and_in_order(store: Store, time: Time, acme: int) -> None:
    jobs = await _due(store, time, acme, 25)
    scan = await fire(store)
    assert (scan.fired, scan.seen, scan.held_back) == (10, 25, 15), "what it saved up in a second"
    assert await _fired(store, acme, jobs[:10]) == 10
    assert (await fire(store)).seen == 0
    time.advance(seconds=0.5)
    assert (await fire(store)).fired == 5
    assert await _fired(store, acme, jobs[:15]) == 15
    time.advance(seconds=60)
    assert (await fire(store)).fired == 10, "no more than for a second is saved up"
    assert await _fired(store, acme, jobs) == 25
    assert (await store.reads.runs_of_job(acme, jobs[-1]))[0].due_at < time.now - timedelta(seconds=60)


async def test_the_others_do_not_wait(store: Store, time: Time, acme: int) -> None:
    await _due(store, time, acme, 25)
    others = await _due(store, time, TENANT, 25)
    for _ in range(3):
        await fire(store, limit=20)
    assert await _fired(store, TENANT, others) == 25


async def test_what_is_due_later_stands_behind_the_backlog(store: Store, time: Time, acme: int) -> None:
    first = await _due(store, time, acme, 15)
    await fire(store)
    second = await _due(store, time, acme, 5)
    scan = await fire(store)
    assert (scan.fired, scan.held_back) == (5, 5)
    assert await _fired(store, acme, first) == 15
    await fire(store)
    assert await _fired(store, acme, second) == 5


async def test_no_node_adds_to_the_rate(store: Store, other: Store, time: Time, acme: int) -> None:
    jobs = await _due(store, time, acme, 60)
    for _ in range(2):
        await asyncio.gather(*(fire(node, limit=7) for node in (store, other) for _ in range(6)))
    assert await _fired(store, acme, jobs) <= 10
    fired = 0
    for _ in range(4):
        time.advance(seconds=0.25)
        fired += sum([(await fire(node)).fired for node in (store, other)])
    assert 9 <= fired <= 11


async def test_every_fire_comes_once_however_many_nodes_fire(store: Store, other: Store, time: Time, acme: int) -> None:
    jobs = await _due(store, time, acme, 40)
    # A scan that finds the rate held by another leaves what is due for the next one: how many it takes is for chance.
    for _ in range(60):
        await asyncio.gather(*(fire(node, limit=9) for node in (store, other) for _ in range(3)))
        time.advance(seconds=1)
        if await _fired(store, acme, jobs) >= 40:
            break
    assert [await _fired(store, acme, [each]) for each in jobs] == [1] * 40


async def test_a_rate_below_one_a_second_lets_one_through(store: Store, time: Time, acme: int) -> None:
    await store.tenants.update_tenant(acme, TenantChange(limits=TenantLimits(fires_per_second=0.5)))
    await _due(store, time, acme, 3)
    assert (await fire(store)).fired == 1
    time.advance(seconds=1)
    assert (await fire(store)).fired == 0
    time.advance(seconds=1)
    assert (await fire(store)).fired == 1


async def test_without_a_rate_the_backlog_fires(store: Store, time: Time, acme: int) -> None:
    jobs = await _due(store, time, acme, 25)
    await fire(store)
    await store.tenants.update_tenant(acme, TenantChange(limits=NO_LIMITS))
    assert (await fire(store)).fired == 15
    assert await _fired(store, acme, jobs) == 25


async def test_what_a_plan_leaves_is_not_charged(store: Store, time: Time, acme: int) -> None:
    await _due(store, time, acme, 25)

    def nothing(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return []

    def some(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return plan(due[:4], now)

    assert (await fire(store, planned=nothing)).fired == 0
    assert (await fire(store, planned=some)).fired == 4
    assert (await fire(store, planned=some)).fired == 4
    assert (await fire(store)).fired == 2


async def test_a_clock_that_is_put_back_stops_no_tenant(store: Store, time: Time, acme: int) -> None:
    await _due(store, time, acme, 10)
    assert (await fire(store)).fired == 10
    time.advance(hours=-1)
    await _due(store, time, acme, 5)
    await fire(store)
    time.advance(seconds=1)
    await fire(store)
    assert (await fire(store)).seen == 0


async def test_repeating_jobs_above_the_rate_fire_in_turn(store: Store, time: Time, acme: int) -> None:
    jobs = [job(Every(timedelta(seconds=1)), tenant_id=acme) for _ in range(30)]
    await store.intake.submit(acme, jobs)
    for _ in range(12):
        time.advance(seconds=0.5)
        await fire(store)
    counts = [(await store.reads.job(acme, each.id)).made for each in jobs]
    assert all(counts), "each has had its turn"
    assert 50 <= sum(counts) <= 70
