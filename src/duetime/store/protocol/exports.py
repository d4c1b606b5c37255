"""Reading everything that a tenant owns, table by table."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from duetime.store.rules.tenant_tables import Exported


class ExportRows(NamedTuple):
    rows: Sequence[Mapping[str, Any]]
    """Values by column, as the store keeps them: encrypted content is encrypted."""
    after: tuple[Any, ...] | None
    """The key of the last row; None: there are no more."""


class Exports(Protocol):
    async def export_rows(self, tenant_id: int, table: Exported, after: tuple[Any, ...]) -> ExportRows:
        """The next rows of a tenant, in the order of their keys. Rows that are written meanwhile may be missing."""
