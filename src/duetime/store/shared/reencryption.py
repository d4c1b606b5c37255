"""Re-encryption finds rows by the first bytes of their seals, and writes only those that have not changed."""

from collections.abc import Sequence
from typing import Any

from duetime.crypto.sealer import MAGIC, TEXT_MAGIC
from duetime.store.rules.encrypted_columns import META, Key, Resealed, SealedRows, SealedTable, page_of
from duetime.store.shared.transaction import SharedRole


class ResealingRole(SharedRole):
    async def sealed_rows(self, table: SealedTable, after: Key, head: bytes, text_head: str, window: int) -> SealedRows:
        rows = await self.transactions.rows(
            table.find,
            **_key(after),
            window=window,
            most=table.most,
            seal=MAGIC,
            head=head,
            text_seal=TEXT_MAGIC,
            text_head=text_head,
        )
        return page_of(table, rows, window)

    async def reseal_rows(self, table: SealedTable, rows: Sequence[Resealed]) -> None:
        written = []
        for row in rows:
            given = _key(row.key)
            for column, pair in zip(table.columns, row.values, strict=True):
                given[f"{column}_old"], given[f"{column}_new"] = pair or (None, None)
            written.append(given)
        await self.transactions.many(table.put, written)

    async def reencryption(self) -> str | None:
        found: str | None = await self.transactions.value("find_meta", name=META)
        return found

    async def keep_reencryption(self, state: str) -> None:
        await self.transactions.execute("put_meta", name=META, value=state)


def _key(key: Key) -> dict[str, Any]:
    return {f"key_{place}": part for place, part in enumerate(key)}
