"""API keys and the audit log."""

import asyncio
import sqlite3
from datetime import datetime, timedelta

import psycopg
import pytest

from duetime.errors import AccessDenied, Conflict, NotFound, StoreRejected
from duetime.ids import new_id
from duetime.model.access import ApiKey, NewKey, Role
from duetime.model.audit import AuditEntry
from duetime.model.key_text import KeyText, new_key_text
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT
from tests.contract.worlds import PostgresWorld, SqliteWorld, Time, World, execute


def key(
    tenant_id: int | None = TENANT,
    role: Role = Role.OPERATOR,
    *,
    text: KeyText | None = None,
    queues: tuple[str, ...] = (),
    expires_at: datetime | None = None,
    networks: tuple[str, ...] = (),
) -> NewKey:
    text = text or new_key_text()
    return NewKey(new_id(), tenant_id, role, "deploy", text.hash, text.hint, queues, expires_at, networks)


async def test_a_key_is_found_by_its_hash(store: Store, time: Time) -> None:
    wanted = key(role=Role.WORKER, queues=("mail", "sms"))
    made = await store.access.create_key(wanted)
    await store.access.create_key(key())
    assert (made.id, made.tenant_id, made.role, made.name) == (wanted.id, TENANT, Role.WORKER, "deploy")
    assert (made.hint, made.queues, made.created_at) == (wanted.hint, ("mail", "sms"), time.now)
    assert (made.expires_at, made.revoked_at, made.last_used_at) == (None, None, None)
    assert await store.access.key_by_hash(wanted.hash) == made
    assert await store.access.key_by_hash(b"0" * 32) is None


async def test_a_hash_stands_for_one_key(store: Store) -> None:
    text = new_key_text()
    await store.access.create_key(key(text=text))
    with pytest.raises(StoreRejected):
        await store.access.create_key(key(STRANGER, text=text))


async def test_keys_are_listed_by_tenant_in_pages(store: Store) -> None:
    mine = [await store.access.create_key(key()) for _ in range(3)]
    root = await store.access.create_key(key(None, Role.ROOT))
    await store.access.create_key(key(STRANGER))
    assert await store.access.keys(TENANT, limit=2) == mine[:2]
    assert await store.access.keys(TENANT, mine[1].id) == mine[2:]
    assert await store.access.keys(None) == [root]


async def test_a_revoked_key_is_of_no_use(store: Store, time: Time) -> None:
    wanted = key()
    made = await store.access.create_key(wanted)
    assert (await store.access.revoke_key(TENANT, made.id)).revoked_at == time.now
    assert await store.access.key_by_hash(wanted.hash) is None
    revoked_at = time.now
    time.advance(hours=1)
    assert (await store.access.revoke_key(TENANT, made.id)).revoked_at == revoked_at
    assert [found.revoked_at for found in await store.access.keys(TENANT)] == [revoked_at]


async def test_a_key_is_of_use_until_it_expires(store: Store, time: Time) -> None:
    wanted = key(expires_at=time.now + timedelta(hours=1))
    await store.access.create_key(wanted)
    time.advance(minutes=59)
    assert await store.access.key_by_hash(wanted.hash) is not None
    time.advance(minutes=1)
    assert await store.access.key_by_hash(wanted.hash) is None


async def test_a_key_is_bound_to_networks(store: Store) -> None:
    wanted = key(networks=("192.0.2.0/24", "2001:db8::/32"))
    made = await store.access.create_key(wanted)
    assert made.networks == wanted.networks
    assert await store.access.key_by_hash(wanted.hash) == made
    new = await store.access.rotate_key(TENANT, made.id, lambda old: key(networks=old.networks[:1]), timedelta(hours=1))
    assert new.networks == ("192.0.2.0/24",)


async def test_a_successor_that_is_refused_changes_nothing(store: Store) -> None:
    made = await store.access.create_key(key())

    def refuse(old: ApiKey) -> NewKey:
        assert old == made
        raise AccessDenied("no")

    with pytest.raises(AccessDenied):
        await store.access.rotate_key(TENANT, made.id, refuse, timedelta(hours=1))
    assert await store.access.keys(TENANT) == [made]


async def test_the_last_root_key_cannot_be_revoked(store: Store, time: Time) -> None:
    first = await store.access.create_key(key(None, Role.ROOT))
    await store.access.create_key(key(None, Role.ROOT, expires_at=time.now + timedelta(hours=1)))
    other = await store.access.create_key(key(None, Role.ROOT))
    await store.access.create_key(key(role=Role.ADMIN))
    assert (await store.access.revoke_key(None, other.id)).revoked_at is not None
    time.advance(hours=1)  # the second one expires, and the third was revoked
    with pytest.raises(Conflict, match="last usable root key") as refused:
        await store.access.revoke_key(None, first.id)
    assert refused.value.remedy is not None
    assert (await store.access.revoke_key(None, other.id)).revoked_at is not None, "again changes nothing"
    await store.access.create_key(key(None, Role.ROOT))
    assert (await store.access.revoke_key(None, first.id)).revoked_at is not None


async def test_of_root_keys_that_revoke_each_other_one_stays(store: Store) -> None:
    for _ in range(5):
        before = [found for found in await store.access.keys(None) if found.revoked_at is None]
        made = [await store.access.create_key(key(None, Role.ROOT)) for _ in range(4 - len(before))]
        asked = [store.access.revoke_key(None, found.id) for found in [*before, *made]]
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert sum(isinstance(answer, Conflict) for answer in answers) == 1
        assert sum(found.revoked_at is None for found in await store.access.keys(None)) == 1


async def test_another_tenants_key_cannot_be_touched(store: Store) -> None:
    mine, root = key(), key(None, Role.ROOT)
    await store.access.create_key(mine)
    await store.access.create_key(root)
    for tenant_id, key_id in ((STRANGER, mine.id), (None, mine.id), (TENANT, root.id), (TENANT, new_id())):
        with pytest.raises(NotFound):
            await store.access.revoke_key(tenant_id, key_id)
        with pytest.raises(NotFound):
            await store.access.rotate_key(tenant_id, key_id, lambda _: key(), timedelta(hours=1))
    assert await store.access.key_by_hash(mine.hash) is not None
    assert await store.access.key_by_hash(root.hash) is not None


async def test_an_old_key_works_on_while_it_is_rotated_out(store: Store, time: Time) -> None:
    old, new = key(role=Role.WORKER, queues=("mail",)), key(STRANGER, Role.ROOT)
    await store.access.create_key(old)
    made = await store.access.rotate_key(TENANT, old.id, lambda _: new, timedelta(hours=1))
    assert (made.id, made.tenant_id, made.role, made.queues) == (new.id, TENANT, Role.WORKER, ("mail",))
    assert await store.access.key_by_hash(new.hash) == made
    assert await store.access.key_by_hash(old.hash) is not None
    time.advance(hours=1)
    assert await store.access.key_by_hash(old.hash) is None
    assert await store.access.key_by_hash(new.hash) == made


async def test_rotation_does_not_make_a_key_live_longer(store: Store, time: Time) -> None:
    old = key(expires_at=time.now + timedelta(minutes=5))
    await store.access.create_key(old)
    await store.access.rotate_key(TENANT, old.id, lambda _: key(), timedelta(hours=1))
    time.advance(minutes=5)
    assert await store.access.key_by_hash(old.hash) is None
    with pytest.raises(Conflict):
        await store.access.rotate_key(TENANT, old.id, lambda _: key(), timedelta(hours=1))


async def test_the_last_use_is_noted_now_and_then(store: Store, time: Time) -> None:
    made = await store.access.create_key(key())
    other = await store.access.create_key(key())
    first = time.now
    await store.access.touch_keys([made.id])
    time.advance(seconds=30)
    await store.access.touch_keys([made.id])
    assert [found.last_used_at for found in await store.access.keys(TENANT)] == [first, None]
    time.advance(seconds=31)
    await store.access.touch_keys([made.id, other.id])
    assert [found.last_used_at for found in await store.access.keys(TENANT)] == [time.now, time.now]


def entry(action: str, tenant_id: int | None = TENANT) -> AuditEntry:
    return AuditEntry(new_id(), tenant_id, new_id(), "deploy", action, "job_1", "because")


async def test_the_audit_log_is_read_newest_first(store: Store, time: Time) -> None:
    entries = [entry("jobs.cancel"), entry("jobs.pause"), entry("jobs.delete")]
    await store.audit.record(entries)
    await store.audit.record([entry("keys.create", None), entry("jobs.cancel", STRANGER)])
    found = await store.audit.audit(TENANT, limit=2)
    assert [item.entry for item in found] == [entries[2], entries[1]]
    assert {item.at for item in found} == {time.now}
    assert [item.entry for item in await store.audit.audit(TENANT, found[-1].entry.id)] == [entries[0]]
    assert len(await store.audit.audit(None)) == 5


async def test_nothing_in_the_audit_log_can_be_rewritten(world: World, store: Store) -> None:
    await store.audit.record([entry("jobs.cancel")])
    for statement in ("update {} set actor = 'nobody'", "delete from {}"):
        if isinstance(world, PostgresWorld):
            with pytest.raises(psycopg.Error, match="only added to"):
                execute(world.dsn, statement.format("duetime.audit"))
        else:
            assert isinstance(world, SqliteWorld)
            attempt = asyncio.create_task(_execute(world, statement.format("audit")))
            with pytest.raises(StoreRejected) as refused:
                await attempt
            assert "only added to" in str(refused.value.__cause__)
    assert [item.entry.actor for item in await store.audit.audit(TENANT)] == ["deploy"]


async def _execute(world: SqliteWorld, statement: str) -> sqlite3.Cursor:
    return await world.store.database.run(lambda connection, _: connection.raw.execute(statement))
