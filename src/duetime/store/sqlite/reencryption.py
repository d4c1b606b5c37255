"""Re-encryption: rows found by what their seals begin with, and written only where they have not changed."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duetime.store.rules.encrypted_columns import FIND, META, PUT, Key, Resealed, SealedRows, SealedTable, page_of
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity


class ResealingRole(Role):
    async def sealed_rows(self, table: SealedTable, after: Key, head: bytes, text_head: str, window: int) -> SealedRows:
        given = {**_keys(after), "window": window, "most": table.most, "head": head, "text_head": text_head}
        rows = await self.database.run(lambda connection, _: connection.rows(FIND[table.name], given))
        return page_of(table, [_read(table, row) for row in rows], window)

    async def reseal_rows(self, table: SealedTable, rows: Sequence[Resealed]) -> None:
        def work(connection: Connection, _: int) -> None:
            for row in rows:
                given = _keys(row.key)
                for column, pair in zip(table.columns, row.values, strict=True):
                    given[f"{column}_old"], given[f"{column}_new"] = pair or (None, None)
                connection.execute(PUT[table.name], given)

        await self.database.run(work)

    async def reencryption(self) -> str | None:
        found: str | None = await self.database.run(lambda connection, _: connection.value("find_meta", {"name": META}))
        return found

    async def keep_reencryption(self, state: str) -> None:
        given = {"name": META, "value": state}
        await self.database.run(lambda connection, _: connection.execute("put_meta", given))


def _keys(key: Key) -> dict[str, Any]:
    return {f"key_{place}": part.bytes if isinstance(part, UUID) else part for place, part in enumerate(key)}


def _read(table: SealedTable, row: Sequence[Any]) -> Sequence[Any]:
    """The ids in both keys of a row as ids."""
    read = list(row)
    for place, first in enumerate(table.first):
        for at in (1 + place, 1 + len(table.first) + place):
            if isinstance(first, UUID) and read[at] is not None:
                read[at] = identity(read[at])
    return read
