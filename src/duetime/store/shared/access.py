"""API keys and the audit log."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from uuid import UUID

import msgspec

from duetime.model.access import ApiKey, NewKey
from duetime.model.audit import Audited, AuditEntry
from duetime.store.shared.service_rows import (
    DEAD_KEYS,
    FIRST_ID,
    LAST_ID,
    NOTED_EVERY,
    audited,
    last_root_key,
    no_key,
    stored_key,
    unusable_key,
)
from duetime.store.shared.transaction import SharedRole, Transaction, found


class AccessRole(SharedRole):
    async def create_key(self, key: NewKey) -> ApiKey:
        return await self.transactions.run(lambda transaction: _create(transaction, key))

    async def keys(self, tenant_id: int | None, after: UUID | None = None, limit: int = 100) -> list[ApiKey]:
        rows = await self.transactions.rows("list_keys", tenant_id=tenant_id, after=after or FIRST_ID, limit=limit)
        return [stored_key(row) for row in rows]

    async def key_by_hash(self, hash: bytes) -> ApiKey | None:
        row = await self.transactions.row("key_by_hash", hash=hash)
        return None if row is None else stored_key(row)

    async def revoke_key(self, tenant_id: int | None, key_id: UUID) -> ApiKey:
        async def work(transaction: Transaction) -> ApiKey:
            if tenant_id is None:
                await transaction.lock("hold_root_keys")
            row = await transaction.row("revoke_key", tenant_id=tenant_id, key_id=key_id)
            if row is None:
                known = await transaction.row("lock_key", tenant_id=tenant_id, key_id=key_id)
                raise no_key(key_id) if known is None else last_root_key()
            return stored_key(row)

        return await self.transactions.run(work)

    async def rotate_key(
        self, tenant_id: int | None, key_id: UUID, successor: Callable[[ApiKey], NewKey], overlap: timedelta
    ) -> ApiKey:
        async def work(transaction: Transaction) -> ApiKey:
            row = await transaction.row("lock_key", tenant_id=tenant_id, key_id=key_id)
            if row is None:
                raise no_key(key_id)
            if not row["usable"]:
                raise unusable_key()
            old = stored_key(row)
            same = {"tenant_id": tenant_id, "role": old.role, "queues": old.queues, "owner": old.owner, "tag": old.tag}
            await transaction.execute("end_key", key_id=key_id, overlap=overlap)
            return await _create(transaction, msgspec.structs.replace(successor(old), **same))

        return await self.transactions.run(work)

    async def touch_keys(self, key_ids: Sequence[UUID]) -> None:
        await self.transactions.execute("touch_keys", ids=list(key_ids), every=NOTED_EVERY)

    async def record(self, entries: Sequence[AuditEntry]) -> None:
        await self.transactions.many("record_audit", [msgspec.structs.asdict(entry) for entry in entries])

    async def audit(self, tenant_id: int | None, before: UUID | None = None, limit: int = 100) -> list[Audited]:
        name = "list_all_audit" if tenant_id is None else "list_audit"
        rows = await self.transactions.rows(name, tenant_id=tenant_id, before=before or LAST_ID, limit=limit)
        return [audited(row) for row in rows]


async def _create(transaction: Transaction, key: NewKey) -> ApiKey:
    row = await transaction.row("create_key", **msgspec.structs.asdict(key))
    await transaction.execute("forget_keys", tenant_id=key.tenant_id, kept=DEAD_KEYS)
    return stored_key(found(row))
