"""Secrets of tenants, and what their requests are signed with."""

from datetime import timedelta

import pytest

from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.secret import SecretBinding, StoredSecret
from duetime.model.tenant import NewTenant
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT
from tests.contract.worlds import Time

BINDING = SecretBinding(("api.example.com",))
OTHER = SecretBinding(("*.example.com:8443",), ("admin",))


async def test_a_secret_is_kept_replaced_and_removed(store: Store, time: Time) -> None:
    created = await store.secrets.put_secret(TENANT, "crm", b"one", BINDING)
    time.advance(minutes=1)
    changed = await store.secrets.put_secret(TENANT, "crm", b"two", OTHER)
    assert changed - created == timedelta(minutes=1)
    await store.secrets.put_secret(TENANT, "a", b"x", BINDING)
    assert await store.secrets.tenant_secret(TENANT, "crm") == StoredSecret(b"two", OTHER)
    found = await store.secrets.tenant_secrets(TENANT)
    assert [(each.name, each.created_at, each.changed_at) for each in found][1] == ("crm", created, changed)
    assert [(each.name, each.binding) for each in found] == [("a", BINDING), ("crm", OTHER)]
    await store.secrets.drop_secret(TENANT, "crm")
    for missing in (store.secrets.tenant_secret(TENANT, "crm"), store.secrets.drop_secret(TENANT, "crm")):
        with pytest.raises(NotFound):
            await missing


async def test_a_tenant_has_its_own(store: Store) -> None:
    stranger = (await store.tenants.create_tenant(NewTenant("stranger"))).id
    await store.secrets.put_secret(TENANT, "crm", b"one", BINDING)
    await store.secrets.add_signing_secret(TENANT, new_id(), b"key", None)
    assert await store.secrets.tenant_secrets(stranger) == []
    assert await store.secrets.signing_secrets(stranger) == []
    with pytest.raises(NotFound):
        await store.secrets.tenant_secret(stranger, "crm")
    with pytest.raises(NotFound):
        await store.secrets.drop_secret(stranger, "crm")


async def test_the_first_signing_secret_is_made_once(store: Store) -> None:
    first = await store.secrets.add_signing_secret(TENANT, new_id(), b"one", None)
    second = await store.secrets.add_signing_secret(TENANT, new_id(), b"two", None)
    assert (first.value, second.value) == (b"one", b"one")
    assert len(await store.secrets.signing_secrets(TENANT)) == 1


async def test_old_signing_secrets_sign_along_for_a_while(store: Store, time: Time) -> None:
    await store.secrets.add_signing_secret(TENANT, new_id(), b"one", timedelta(hours=1))
    time.advance(seconds=1)
    newest = await store.secrets.add_signing_secret(TENANT, new_id(), b"two", timedelta(hours=1))
    assert (newest.value, newest.expires_at) == (b"two", None)
    found = await store.secrets.signing_secrets(TENANT)
    assert [each.value for each in found] == [b"two", b"one"]
    assert found[1].expires_at == time.now + timedelta(hours=1)
    time.advance(minutes=30)
    await store.secrets.add_signing_secret(TENANT, new_id(), b"three", timedelta(hours=2))
    expires = [each.expires_at for each in await store.secrets.signing_secrets(TENANT)]
    assert expires[1:] == [time.now + timedelta(hours=2), time.now + timedelta(minutes=30)], "never longer than before"
    time.advance(hours=1)
    assert [each.value for each in await store.secrets.signing_secrets(TENANT)] == [b"three", b"two"]
