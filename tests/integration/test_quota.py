"""The quota of stored jobs: an estimate that errs little, and counts seldom."""

import pytest

from duetime.clock import ManualClock
from duetime.engine import quota as quota_module
from duetime.engine.quota import Quota
from duetime.errors import QuotaExceeded
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


async def test_a_tenant_has_as_many_jobs_as_it_may(watch: Watch) -> None:
    store: Store = store_in_memory(ManualClock())
    await store.open()
    await store.migrate()
    tenant = await store.create_tenant(NewTenant("acme", limits=TenantLimits(stored_jobs=5)))
    quota = Quota(store)

    async def add(count: int) -> None:
        await quota.take(tenant, count)
        await submit(store, *(job(tenant_id=tenant.id) for _ in range(count)), tenant_id=tenant.id)

    await add(3)
    with pytest.raises(QuotaExceeded):
        await add(3)
    await add(2)
    quota.give_back(tenant, 1)
    await quota.take(tenant, 1)
    worker = await hand(store)
    await worker.succeed(*await worker.claim(4))
    with pytest.raises(QuotaExceeded):
        await add(1)
    watch.now += 1
    await add(4)
    with pytest.raises(QuotaExceeded):
        await add(1)
    without: Tenant = await store.tenant("default")
    await quota.take(without, 1_000_000)
    await store.close()
