"""Re-encryption: rows found by what their seals begin with, and written only where they have not changed."""

from collections.abc import Sequence

from duetime.store.postgres.clashes import again_after_clash
from duetime.store.postgres.database import SQL, columns
from duetime.store.postgres.role import Role
from duetime.store.resealing import Key, Resealed, SealedRows, SealedTable, page_of

_META = "re-encryption"
_FIND = {
    "secrets": "stale_secrets",
    "tenant_secrets": "stale_tenant_secrets",
    "signing_secrets": "stale_signing_secrets",
    "payloads": "stale_payloads",
    "jobs": "stale_jobs",
    "dead_letters": "stale_dead_letters",
    "runs": "stale_runs",
    "live_logs": "stale_live_logs",
    "history": "stale_history",
}
_PUT = {
    "secrets": "reseal_secrets",
    "tenant_secrets": "reseal_tenant_secrets",
    "signing_secrets": "reseal_signing_secrets",
    "payloads": "reseal_payloads",
    "jobs": "reseal_jobs",
    "dead_letters": "reseal_dead_letters",
    "runs": "reseal_runs",
    "live_logs": "reseal_live_logs",
    "history": "reseal_history",
}
_TEXTS = frozenset({"error", "message"})


class ResealingRole(Role):
    async def sealed_rows(self, table: SealedTable, after: Key, head: bytes, text_head: str, window: int) -> SealedRows:
        heads = (head, text_head) if _TEXTS.intersection(table.columns) else (head,)
        rows = await self.database.fetch(_FIND[table.name], *after, window, table.most, *heads)
        return page_of(table, [tuple(row) for row in rows], window)

    @again_after_clash
    async def reseal_rows(self, table: SealedTable, rows: Sequence[Resealed]) -> None:
        if rows:
            flat = [(*row.key, *(part for pair in row.values for part in pair or (None, None))) for row in rows]
            given = columns(flat, len(table.first) + 2 * len(table.columns))
            await self.database.execute(_PUT[table.name], *given)

    async def reencryption(self) -> str | None:
        async with self.database.transaction() as connection:
            found: str | None = await connection.fetchval(SQL["find_meta"], _META)
        return found

    async def keep_reencryption(self, state: str) -> None:
        await self.database.execute("put_meta", _META, state)
