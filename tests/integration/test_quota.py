"""Quotas of what is stored on the hot path: estimates that err little, and count seldom."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from duetime import App
from duetime.clock import ManualClock
from duetime.engine import quota as quota_module
from duetime.engine.quota import Quota
from duetime.errors import QuotaExceeded, StoreUnavailable
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.model.tenant import NewTenant, Tenant, TenantChange, TenantLimits
from duetime.store.address import store_in_memory
from duetime.store.protocol.store import Store
from tests.contract.hands import hand, job, submit
from tests.support.caller_connections import DRIVERS, with_asyncpg


class Watch:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    monkeypatch.setattr(quota_module, "monotonic", watch)
    return watch


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    store: Store = store_in_memory(ManualClock())
    await store.open()
    await store.migrate()
    yield store
    await store.close()


@pytest.fixture
async def tenant(store: Store) -> Tenant:
    return await store.tenants.create_tenant(NewTenant("acme", limits=TenantLimits(stored_jobs=5)))


async def test_a_tenant_has_as_many_jobs_as_it_may(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota = Quota()

    async def add(count: int) -> None:
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": count}):
            await submit(store, *(job(tenant_id=tenant.id) for _ in range(count)), tenant_id=tenant.id)

    await add(3)
    with pytest.raises(QuotaExceeded):
        await add(3)
    await add(2)
    worker = await hand(store)
    await worker.succeed(*await worker.claim(4))
    with pytest.raises(QuotaExceeded):
        await add(1)
    watch.now += 1
    await add(4)
    with pytest.raises(QuotaExceeded):
        await add(1)
    async with quota.taking(store.tenants, DEFAULT_TENANT, {"stored_jobs": 1_000_000}):
        pass  # there is no limit


async def test_what_is_not_stored_needs_no_room(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota = Quota()
    with pytest.raises(ZeroDivisionError):
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 5}):
            raise ZeroDivisionError
    async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 5}) as taken:
        taken["stored_jobs"] = 2  # the others were there already
    async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 3}):
        pass
    with pytest.raises(QuotaExceeded):
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 1}):
            pass


async def test_many_that_find_it_full_count_once(store: Store, tenant: Tenant, watch: Watch) -> None:
    """And what they store meanwhile is not forgotten by the count."""
    quota, counts, may_answer = Quota(), 0, asyncio.Event()
    really = store.tenants.usage

    async def slowly(tenant_id: int, kind: str, most: int) -> int:
        nonlocal counts
        counts += 1
        counted = await really(tenant_id, kind, most)
        await may_answer.wait()
        return counted

    store.tenants.usage = slowly  # type: ignore[method-assign]
    stored = 0

    async def add() -> None:
        nonlocal stored
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 1}):
            await submit(store, job(tenant_id=tenant.id), tenant_id=tenant.id)
            stored += 1

    for _ in range(2):
        asked = [asyncio.create_task(add()) for _ in range(50)]
        await asyncio.sleep(0.01)
        may_answer.set()
        refused = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, QuotaExceeded) for answer in refused) >= 45
        assert stored == 5
        watch.now += 1
        may_answer.clear()
    assert counts == 2


async def test_who_finds_it_full_while_it_is_counted_is_refused_at_once(
    store: Store, tenant: Tenant, watch: Watch
) -> None:
    quota, may_answer = Quota(), asyncio.Event()
    async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 5}):
        await submit(store, *(job(tenant_id=tenant.id) for _ in range(5)), tenant_id=tenant.id)
    watch.now += 1

    async def slowly(_tenant_id: int, _kind: str, _most: int) -> int:
        await may_answer.wait()
        return 0

    store.tenants.usage = slowly  # type: ignore[method-assign]

    async def take() -> None:
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 1}):
            pass

    first = asyncio.create_task(take())
    await asyncio.sleep(0)
    with pytest.raises(QuotaExceeded):
        await asyncio.wait_for(take(), 5)
    may_answer.set()
    await first
    await take()


async def test_a_count_that_fails_is_told_to_who_began_it(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota, really = Quota(), store.tenants.usage

    async def away(_tenant_id: int, _kind: str, _most: int) -> int:
        raise StoreUnavailable("the database is away")

    store.tenants.usage = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 1}):
            pass
    store.tenants.usage = really  # type: ignore[method-assign]
    async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 5}):
        pass


async def test_an_app_beside_its_store_keeps_to_the_quotas(app: App) -> None:
    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    store = await app.store()
    limits = TenantLimits(stored_jobs=3, stored_bytes=200, idempotency_keys=1, calendars=1, graphs=1, queues=2)
    await store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(limits=limits))
    with pytest.raises(QuotaExceeded, match="stored jobs") as refused:
        await app.submit_many([greet.bind(name="a")] * 4)
    assert refused.value.field == "limits.stored_jobs"
    with pytest.raises(QuotaExceeded, match="bytes"):
        await greet.submit(name="a" * 200)
    first = await app.schedule(greet.bind(name="a"), every="1h", idempotency_key="k")
    with pytest.raises(QuotaExceeded, match="keys"):
        await app.submit(greet.bind(name="a"), idempotency_key="other")
    with pytest.raises(QuotaExceeded, match="queues"):
        await app.submit_many([greet.bind(name="a")], queue="second")
        await app.submit_many([greet.bind(name="a")], queue="third")
    await app.trigger(first)
    with pytest.raises(QuotaExceeded, match="stored jobs"):
        await app.trigger(first)
    await app.set_calendar("one", [])
    with pytest.raises(QuotaExceeded, match="calendars"):
        await app.set_calendar("two", [])


@DRIVERS
async def test_a_caller_inside_its_own_transaction_keeps_to_the_quotas(postgres_app: App, connect: Any) -> None:
    app = postgres_app

    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    store = await app.store()
    await store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(limits=TenantLimits(stored_jobs=1)))
    async with connect(app) as connection:
        await greet.options(connection=connection).submit(name="a")
    with pytest.raises(QuotaExceeded) as refused:
        async with connect(app) as connection:
            await greet.options(connection=connection).submit(name="b")
    assert refused.value.field == "limits.stored_jobs"
    await store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(limits=TenantLimits(stored_bytes=100, queues=1)))
    for wrong in (greet.bind(name="b" * 100), greet.options(queue="second").bind(name="b")):
        with pytest.raises(QuotaExceeded):
            async with connect(app) as connection:
                await wrong.submit(connection=connection)
    async with connect(app) as connection:
        await greet.options(connection=connection).submit(name="b")


async def test_a_callers_open_transaction_holds_no_quota(postgres_app: App) -> None:
    app = postgres_app

    @app.task(name="greet")
    async def greet(name: str) -> None: ...

    store = await app.store()
    await store.tenants.update_tenant(DEFAULT_TENANT, TenantChange(limits=TenantLimits(stored_jobs=9, queues=9)))
    async with with_asyncpg(app) as connection:
        await greet.options(queue="first", connection=connection).submit(name="a")
        async with asyncio.timeout(10):
            await app.submit_many([greet.bind(name="b")], queue="second")
            await store.queues.pause_queue(DEFAULT_TENANT, "third")


async def test_a_count_that_takes_long_is_made_less_often(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota, counts, really = Quota(), 0, store.tenants.usage

    async def slowly(tenant_id: int, kind: str, most: int) -> int:
        nonlocal counts
        counts += 1
        watch.now += 5
        return await really(tenant_id, kind, most)

    store.tenants.usage = slowly  # type: ignore[method-assign]
    for _ in range(60):
        async with quota.taking(store.tenants, tenant.id, {"stored_jobs": 1}) as taken:
            taken.clear()
        watch.now += 10
    assert counts == 2, "a hundredth of the time"


async def test_usage_is_counted_part_by_part(store: Store, tenant: Tenant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.store.sqlite.usage._COUNTED_AT_ONCE", 3)
    later = Once(delay=timedelta(days=1))
    jobs = [job(later, tenant_id=tenant.id, args=b"12345", key=f"key {number}") for number in range(10)]
    await submit(store, *jobs, *(job(tenant_id=tenant.id, args=b"123") for _ in range(7)), tenant_id=tenant.id)
    for kind, amount in (("stored_jobs", 17), ("stored_bytes", 71), ("idempotency_keys", 10), ("graphs", 0)):
        assert await store.tenants.usage(tenant.id, kind, 1000) == amount, kind
    assert await store.tenants.usage(tenant.id, "stored_jobs", 4) == 4
