"""The encrypted columns of a database by table, so that all of it can be re-encrypted with another key.

A table is looked through in the order of its key. A row that was written meanwhile is left alone: what is encrypted
anew takes the place of a value only while that value begins as it did, and a seal's beginning (its key's name and its
nonce) is never used twice.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from duetime.store.rules.job_rows import Fields
from duetime.store.rules.seal_owners import (
    CONTENT,
    content_owner,
    payload_owner,
    secret_owner,
    shared_owner,
    signing_owner,
    stream_owner,
    subscription_owner,
)

META = "re-encryption"
"""The row of `meta` with the progress."""
Key = tuple[Any, ...]
_NO_ID = UUID(int=0)
_MANY, _FEW = 50, 2


class SealedTable(NamedTuple):
    """A table with encrypted columns. `store/shared/reencryption_statements.py` writes its statements."""

    name: str
    key: Mapping[str, Any]
    """The columns of its primary key, in the order of the walk, each with a value below all others."""
    columns: Mapping[str, type[bytes] | type[str]]
    """The encrypted columns, each with the type of its values."""
    owner: Callable[[str, Key, int], str]
    """What a value is bound to, by column, key and tenant."""
    most: int = _MANY
    """How many rows one transaction re-encrypts."""
    of_tenants: bool = True

    @property
    def find(self) -> str:
        """The statement that reads the next rows with other keys."""
        return f"stale_{self.name}"

    @property
    def put(self) -> str:
        """The statement that writes a row."""
        return f"reseal_{self.name}"

    @property
    def first(self) -> Key:
        return tuple(self.key.values())


def _content(column: str, _: Key, tenant_id: int) -> str:
    return content_owner(CONTENT[column], tenant_id)


# In the direction in which rows move between homes, so that few of them move before they are checked.
SEALED_TABLES = (
    SealedTable("secrets", {"name": ""}, {"value": bytes}, lambda _, key, __: shared_owner(key[0]), of_tenants=False),
    SealedTable(
        "tenant_secrets",
        {"tenant_id": 0, "name": ""},
        {"value": bytes},
        lambda _, key, tenant: secret_owner(tenant, key[1]),
    ),
    SealedTable(
        "signing_secrets",
        {"tenant_id": 0, "id": _NO_ID},
        {"value": bytes},
        lambda _, key, tenant: signing_owner(tenant, key[1]),
    ),
    SealedTable(
        "stream_queues",
        {"tenant_id": 0, "queue": "", "generation": 0},
        {"address": str},
        lambda _, key, tenant: stream_owner(tenant, key[1]),
    ),
    SealedTable(
        "subscriptions",
        {"tenant_id": 0, "name": ""},
        {"address": str},
        lambda _, key, tenant: subscription_owner(tenant, key[1]),
    ),
    SealedTable(
        "payloads", {"id": _NO_ID}, {"body": bytes}, lambda _, key, tenant: payload_owner(tenant, key[0]), _FEW
    ),
    SealedTable("jobs", {"id": _NO_ID}, {"args": bytes}, _content),
    SealedTable("dead_letters", {"run_id": _NO_ID}, {"args": bytes, "error": str}, _content),
    SealedTable("runs", {"id": _NO_ID}, {"args": bytes, "checkpoint": bytes, "message": str}, _content),
    SealedTable("live_logs", {"run_id": _NO_ID}, {"logs": bytes}, _content),
    SealedTable(
        "history",
        {"tenant_id": 0, "run_id": _NO_ID, "fence": -1},
        {"args": bytes, "result": bytes, "logs": bytes, "error": str},
        _content,
    ),
)


class SealedRow(NamedTuple):
    key: Key
    tenant_id: int
    values: tuple[bytes | str | None, ...]
    """By column, including values that are encrypted with the right key, or not at all."""


class SealedRows(NamedTuple):
    """Rows with values that are encrypted with another key, and the last row that was checked."""

    rows: Sequence[SealedRow]
    after: Key | None
    """Where to continue; None: the end of the table."""
    seen: int
    """How many rows were checked."""


class Resealed(NamedTuple):
    """A re-encrypted row: for each column the start of the old value, and the new value; None if it stays."""

    key: Key
    values: tuple[tuple[bytes | str, bytes | str] | None, ...]


def page_of(table: SealedTable, rows: Sequence[Fields], window: int) -> SealedRows:
    """The result of a `stale_…` statement, which checks up to `window` rows and returns those that are encrypted with
    another key. If it returned as many as one transaction re-encrypts, the next page begins after the last of them,
    otherwise after the last row that was checked."""
    found = [
        SealedRow(
            tuple(row[f"key_{place}"] for place in range(len(table.first))),
            row["tenant_id"] or 0,
            tuple(row[column] for column in table.columns),
        )
        for row in rows
    ]
    if len(found) >= table.most:
        return SealedRows(found, found[-1].key, len(found))  # rows in between were checked too, and not counted
    seen = rows[0]["seen"] if rows else 0
    return SealedRows(found, found[-1].key if seen >= window else None, seen)
