"""Exports: pages of tables, in the order of their keys."""

from collections.abc import Mapping
from typing import Any, cast

from duetime.store.protocol.exports import ExportRows
from duetime.store.rules.tenant_tables import Exported
from duetime.store.shared.transaction import SharedRole


class ExportRole(SharedRole):
    async def export_rows(self, tenant_id: int, table: Exported, after: tuple[Any, ...]) -> ExportRows:
        keys = {f"key_{place}": part for place, part in enumerate(after)}
        rows = await self.transactions.rows(table.read, tenant_id=tenant_id, **keys, limit=table.rows)
        names = [f"key_{place}" for place in range(len(table.first))]
        last = tuple(rows[-1][name] for name in names) if len(rows) >= table.rows else None
        return ExportRows(
            [
                {name: value for name, value in cast(Mapping[str, Any], row).items() if name not in names}
                for row in rows
            ],
            last,
        )
