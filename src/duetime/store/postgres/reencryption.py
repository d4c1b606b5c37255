"""Re-encryption: rows found by what their seals begin with, and written only where they have not changed."""

from collections.abc import Sequence

from duetime.store.postgres.database import SQL, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.role import Role
from duetime.store.rules.encrypted_columns import FIND, META, PUT, Key, Resealed, SealedRows, SealedTable, page_of

_TEXTS = frozenset({"error", "message"})


class ResealingRole(Role):
    async def sealed_rows(self, table: SealedTable, after: Key, head: bytes, text_head: str, window: int) -> SealedRows:
        heads = (head, text_head) if _TEXTS.intersection(table.columns) else (head,)
        rows = await self.database.fetch(FIND[table.name], *after, window, table.most, *heads)
        return page_of(table, [tuple(row) for row in rows], window)

    @retry_on_deadlock
    async def reseal_rows(self, table: SealedTable, rows: Sequence[Resealed]) -> None:
        if rows:
            flat = [(*row.key, *(part for pair in row.values for part in pair or (None, None))) for row in rows]
            given = columns(flat, len(table.first) + 2 * len(table.columns))
            await self.database.execute(PUT[table.name], *given)

    async def reencryption(self) -> str | None:
        async with self.database.transaction() as connection:
            found: str | None = await connection.fetchval(SQL["find_meta"], META)
        return found

    async def keep_reencryption(self, state: str) -> None:
        await self.database.execute("put_meta", META, state)
