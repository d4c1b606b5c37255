"""Tenants, and the secrets that all nodes share."""

from datetime import timedelta

import pytest

from duetime.errors import NameTaken, NotFound
from duetime.model.schedule import Every, Once
from duetime.model.tenant import FIRST_LIMITS, NewTenant, TenantChange, TenantLimits, TenantState
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, job, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


async def test_there_is_a_tenant_from_the_beginning(store: Store) -> None:
    found = await store.tenants.tenant("default")
    assert (found.id, found.state, found.limits) == (TENANT, TenantState.ACTIVE, FIRST_LIMITS)
    assert await store.tenants.tenant_by_id(TENANT) == found


async def test_a_tenant_is_read_back_as_it_was_made(store: Store, time: Time) -> None:
    limits = TenantLimits(stored_jobs=10, submissions_per_second=2.5)
    made = await store.tenants.create_tenant(NewTenant("acme", "gold", 300, limits, encrypt_args=True))
    assert (made.name, made.tier, made.weight, made.limits, made.encrypt_args) == ("acme", "gold", 300, limits, True)
    assert made.created_at == time.now
    assert await store.tenants.tenant("acme") == made
    assert await store.tenants.tenant_by_id(made.id) == made


async def test_a_name_is_taken_once(store: Store) -> None:
    await store.tenants.create_tenant(NewTenant("acme"))
    with pytest.raises(NameTaken):
        await store.tenants.create_tenant(NewTenant("acme"))
    with pytest.raises(NameTaken):
        await store.tenants.update_tenant(TENANT, TenantChange(name="acme"))
    assert (await store.tenants.tenant_by_id(TENANT)).name == "default"


async def test_tenants_come_in_pages(store: Store) -> None:
    made = [await store.tenants.create_tenant(NewTenant(f"t{number}")) for number in range(3)]
    first = await store.tenants.tenants(limit=2)
    assert [tenant.name for tenant in first] == ["default", "t0"]
    assert await store.tenants.tenants(first[-1].id, 10) == made[1:]


async def test_only_what_is_given_is_changed(store: Store) -> None:
    made = await store.tenants.create_tenant(
        NewTenant("acme", "gold", 300, TenantLimits(stored_jobs=1, running_runs=2))
    )
    found = await store.tenants.update_tenant(made.id, TenantChange(state=TenantState.SUSPENDED))
    assert (found.state, found.tier, found.weight, found.limits) == (TenantState.SUSPENDED, "gold", 300, made.limits)
    found = await store.tenants.update_tenant(
        made.id, TenantChange(limits=TenantLimits(running_runs=5), encrypt_args=True)
    )
    assert (found.limits, found.state, found.encrypt_args) == (
        TenantLimits(running_runs=5),
        TenantState.SUSPENDED,
        True,
    )


async def test_what_is_not_there_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.tenants.tenant("nobody")
    with pytest.raises(NotFound):
        await store.tenants.tenant_by_id(99)
    with pytest.raises(NotFound):
        await store.tenants.update_tenant(99, TenantChange(weight=1))


async def test_jobs_are_counted_up_to_a_bound(store: Store) -> None:
    await submit(store, *(job() for _ in range(3)), job(Once(delay=HOUR)), job(Every(HOUR)))
    await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    assert await store.tenants.usage(TENANT, "stored_jobs", 100) == 5
    assert await store.tenants.usage(TENANT, "stored_jobs", 2) == 2
    assert await store.tenants.usage(STRANGER, "stored_jobs", 100) == 1


async def test_a_secret_is_chosen_once(store: Store, other: Store) -> None:
    assert await store.tenants.secret("cursors", b"first") == b"first"
    assert await other.tenants.secret("cursors", b"second") == b"first"
    assert await store.tenants.secret("links", b"third") == b"third"
