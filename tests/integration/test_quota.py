"""The quota of stored jobs: an estimate that errs little, and counts seldom."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from duetime.clock import ManualClock
from duetime.engine import quota as quota_module
from duetime.engine.quota import Quota
from duetime.errors import QuotaExceeded, StoreUnavailable
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import NewTenant, Tenant, TenantLimits
from duetime.store.opening import store_in_memory
from duetime.store.protocol import Store
from tests.contract.hands import hand, job, submit


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
    return await store.create_tenant(NewTenant("acme", limits=TenantLimits(stored_jobs=5)))


async def test_a_tenant_has_as_many_jobs_as_it_may(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota = Quota()

    async def add(count: int) -> None:
        async with quota.taking(store, tenant.id, {"stored_jobs": count}):
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
    async with quota.taking(store, DEFAULT_TENANT, {"stored_jobs": 1_000_000}):
        pass  # there is no limit


async def test_what_is_not_stored_needs_no_room(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota = Quota()
    with pytest.raises(ZeroDivisionError):
        async with quota.taking(store, tenant.id, {"stored_jobs": 5}):
            raise ZeroDivisionError
    async with quota.taking(store, tenant.id, {"stored_jobs": 5}) as taken:
        taken["stored_jobs"] = 2  # the others were there already
    async with quota.taking(store, tenant.id, {"stored_jobs": 3}):
        pass
    with pytest.raises(QuotaExceeded):
        async with quota.taking(store, tenant.id, {"stored_jobs": 1}):
            pass


async def test_many_that_find_it_full_count_once(store: Store, tenant: Tenant, watch: Watch) -> None:
    """And what they store meanwhile is not forgotten by the count."""
    quota, counts, may_answer = Quota(), 0, asyncio.Event()
    really = store.usage

    async def slowly(tenant_id: int, kind: str, most: int) -> int:
        nonlocal counts
        counts += 1
        counted = await really(tenant_id, kind, most)
        await may_answer.wait()
        return counted

    store.usage = slowly  # type: ignore[method-assign]
    stored = 0

    async def add() -> None:
        nonlocal stored
        async with quota.taking(store, tenant.id, {"stored_jobs": 1}):
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
    async with quota.taking(store, tenant.id, {"stored_jobs": 5}):
        await submit(store, *(job(tenant_id=tenant.id) for _ in range(5)), tenant_id=tenant.id)
    watch.now += 1

    async def slowly(_tenant_id: int, _kind: str, _most: int) -> int:
        await may_answer.wait()
        return 0

    store.usage = slowly  # type: ignore[method-assign]

    async def take() -> None:
        async with quota.taking(store, tenant.id, {"stored_jobs": 1}):
            pass

    first = asyncio.create_task(take())
    await asyncio.sleep(0)
    with pytest.raises(QuotaExceeded):
        await asyncio.wait_for(take(), 5)
    may_answer.set()
    await first
    await take()


async def test_a_count_that_fails_is_told_to_who_began_it(store: Store, tenant: Tenant, watch: Watch) -> None:
    quota, really = Quota(), store.usage

    async def away(_tenant_id: int, _kind: str, _most: int) -> int:
        raise StoreUnavailable("the database is away")

    store.usage = away  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailable):
        async with quota.taking(store, tenant.id, {"stored_jobs": 1}):
            pass
    store.usage = really  # type: ignore[method-assign]
    async with quota.taking(store, tenant.id, {"stored_jobs": 5}):
        pass
