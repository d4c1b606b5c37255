"""API keys and the audit log."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.model.access import ApiKey, NewKey
from duetime.model.audit import Audited, AuditEntry
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.postgres.role import Role
from duetime.store.shared.service_rows import (
    DEAD_KEYS,
    FIRST_ID,
    LAST_ID,
    audited,
    last_root_key,
    no_key,
    stored_key,
    unusable_key,
)


class AccessRole(Role):
    async def create_key(self, key: NewKey) -> ApiKey:
        async with self.database.transaction() as connection:
            return await _create(connection, key)

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        rows = await self.database.fetch("list_keys", tenant_id, after or FIRST_ID, limit)
        return [key_of(row) for row in rows]

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        row = await self.database.fetchrow("key_by_hash", hash)
        return None if row is None else key_of(row)

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        async with self.database.transaction() as connection:
            if tenant_id is None:
                await connection.execute(SQL["hold_root_keys"])
            row = await connection.fetchrow(SQL["revoke_key"], tenant_id, key_id)
            if row is None:
                found = await connection.fetchrow(SQL["lock_key"], tenant_id, key_id)
                raise no_key(key_id) if found is None else last_root_key()
        return key_of(row)

    async def rotate_key(
        self, tenant_id: int | None, key_id: UUID, successor: Callable[[ApiKey], NewKey], overlap: timedelta
    ) -> ApiKey:
        async with self.database.transaction() as connection:
            row = await connection.fetchrow(SQL["lock_key"], tenant_id, key_id)
            if row is None:
                raise no_key(key_id)
            if not row["usable"]:
                raise unusable_key()
            old = key_of(row)
            same = {"tenant_id": tenant_id, "role": old.role, "queues": old.queues}
            fresh = msgspec.structs.replace(successor(old), **same)
            await connection.execute(SQL["end_key"], key_id, overlap)
            return await _create(connection, fresh)

    async def touch_keys(self, key_ids: Sequence[UUID]) -> None:
        await self.database.execute("touch_keys", list(key_ids))

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        rows = [
            (entry.id, entry.tenant_id, entry.key_id, entry.actor, entry.action, entry.object, entry.detail)
            for entry in entries
        ]
        await self.database.execute("record_audit", *columns(rows, 7))

    async def audit(self, tenant_id: int | None, before: UUID | None = None, limit: int = 100) -> list[Audited]:
        if tenant_id is None:
            rows = await self.database.fetch("list_all_audit", before or LAST_ID, limit)
        else:
            rows = await self.database.fetch("list_audit", tenant_id, before or LAST_ID, limit)
        return [audited(row) for row in rows]


async def _create(connection: Connection, key: NewKey) -> ApiKey:
    row = await connection.fetchrow(
        SQL["create_key"],
        key.id,
        key.tenant_id,
        key.role,
        key.name,
        key.hash,
        key.hint,
        list(key.queues),
        key.expires_at,
        list(key.networks),
    )
    assert row is not None
    await connection.execute(SQL["forget_keys"], key.tenant_id, DEAD_KEYS)
    return key_of(row)


def key_of(row: Row) -> ApiKey:
    return stored_key(row, row["queues"], row["networks"])
