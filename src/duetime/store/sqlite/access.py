"""API keys and the audit log."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec

from duetime.model.access import ApiKey, NewKey
from duetime.model.audit import Audited, AuditEntry
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
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import listed, maybe_bytes, maybe_stamp, microseconds


class AccessRole(Role):
    async def create_key(self, key: NewKey) -> ApiKey:
        return await self.database.run(lambda connection, now: _create(connection, now, key))

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        page = {"tenant_id": tenant_id, "after": (after or FIRST_ID).bytes, "limit": limit}
        return [
            key_of(row) for row in await self.database.run(lambda connection, _: connection.records("list_keys", page))
        ]

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        rows = await self.database.run(
            lambda connection, now: connection.records("key_by_hash", {"hash": hash, "now": now})
        )
        return key_of(rows[0]) if rows else None

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        this = {"tenant_id": tenant_id, "key_id": key_id.bytes}

        def work(connection: Connection, now: int) -> ApiKey:
            rows = connection.records("revoke_key", {**this, "now": now})
            if not rows:
                found = connection.records("lock_key", {**this, "now": now})
                raise last_root_key() if found else no_key(key_id)
            return key_of(rows[0])

        return await self.database.run(work)

    async def rotate_key(
        self, tenant_id: int | None, key_id: UUID, successor: Callable[[ApiKey], NewKey], overlap: timedelta
    ) -> ApiKey:
        this = {"tenant_id": tenant_id, "key_id": key_id.bytes}

        def work(connection: Connection, now: int) -> ApiKey:
            rows = connection.records("lock_key", {**this, "now": now})
            if not rows:
                raise no_key(key_id)
            if not rows[0]["usable"]:
                raise unusable_key()
            old = key_of(rows[0])
            same = {"tenant_id": tenant_id, "role": old.role, "queues": old.queues}
            fresh = msgspec.structs.replace(successor(old), **same)
            connection.execute("end_key", {**this, "until": now + microseconds(overlap)})
            return _create(connection, now, fresh)

        return await self.database.run(work)

    async def touch_keys(self, key_ids: Sequence[UUID]) -> None:
        def work(connection: Connection, now: int) -> None:
            connection.many("touch_keys", [{"key_id": key_id.bytes, "now": now} for key_id in key_ids])

        await self.database.run(work)

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        def work(connection: Connection, now: int) -> None:
            connection.many("record_audit", [_entry(entry, now) for entry in entries])

        await self.database.run(work)

    async def audit(self, tenant_id: int | None, before: UUID | None = None, limit: int = 100) -> list[Audited]:
        page = {"tenant_id": tenant_id, "before": (before or LAST_ID).bytes, "limit": limit}
        name = "list_all_audit" if tenant_id is None else "list_audit"
        rows = await self.database.run(lambda connection, _: connection.records(name, page))
        return [audited(row) for row in rows]


def _create(connection: Connection, now: int, key: NewKey) -> ApiKey:
    values = {
        "id": key.id.bytes,
        "tenant_id": key.tenant_id,
        "role": key.role,
        "name": key.name,
        "hash": key.hash,
        "hint": key.hint,
        "queues": listed(key.queues),
        "expires_at": maybe_stamp(key.expires_at),
        "networks": listed(key.networks),
        "now": now,
    }
    (row,) = connection.records("create_key", values)
    connection.execute("forget_keys", {"tenant_id": key.tenant_id, "now": now, "kept": DEAD_KEYS})
    return key_of(row)


def key_of(row: dict[str, Any]) -> ApiKey:
    return stored_key(row, row["queues"], row["networks"])


def _entry(entry: AuditEntry, now: int) -> dict[str, Any]:
    return {
        "id": entry.id.bytes,
        "tenant_id": entry.tenant_id,
        "key_id": maybe_bytes(entry.key_id),
        "actor": entry.actor,
        "action": entry.action,
        "object": entry.object,
        "detail": entry.detail,
        "now": now,
    }
