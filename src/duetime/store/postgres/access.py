"""API keys and the audit log."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.errors import Conflict
from duetime.model.access import ApiKey, NewKey, Role
from duetime.model.audit import Audited, AuditEntry
from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.postgres.role import Role as StoreRole
from duetime.store.service_views import FIRST_ID, LAST_ID, audited, no_key, stored_key


class AccessRole(StoreRole):
    async def create_key(self, key: NewKey) -> ApiKey:
        async with self.database.connection() as connection:
            return await _create(connection, key)

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        rows = await self.database.fetch("list_keys", tenant_id, after or FIRST_ID, limit)
        return [stored_key(row, row["queues"]) for row in rows]

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        row = await self.database.fetchrow("key_by_hash", hash)
        return None if row is None else stored_key(row, row["queues"])

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        row = await self.database.fetchrow("revoke_key", tenant_id, key_id)
        if row is None:
            raise no_key(key_id)
        return stored_key(row, row["queues"])

    async def rotate_key(self, tenant_id: int | None, key_id: UUID, successor: NewKey, overlap: timedelta) -> ApiKey:
        async with self.database.transaction() as connection:
            row = await connection.fetchrow(SQL["lock_key"], tenant_id, key_id)
            if row is None:
                raise no_key(key_id)
            if not row["usable"]:
                raise Conflict("this key cannot be used any more", remedy="create a new one")
            await connection.execute(SQL["end_key"], key_id, overlap)
            same = {"tenant_id": tenant_id, "role": Role(row["role"]), "queues": tuple(row["queues"])}
            return await _create(connection, msgspec.structs.replace(successor, **same))

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
    )
    assert row is not None
    return stored_key(row, row["queues"])
