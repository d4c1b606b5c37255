"""The statements of re-encryption, two for each table with encrypted columns, in the dialect of `shared/sql`.

`stale_…` returns, of the next rows, those with values encrypted with another key, and the last row. `reseal_…` writes
the values of one row, if they have not changed.
"""

from collections.abc import Iterable, Iterator
from uuid import UUID

from duetime.store.rules.encrypted_columns import SealedTable

_STALE = """with w as materialized (
    select {named}, {tenant}, {columns}
    from duetime.{table} t
    where {place} > {after} order by {order} limit :window
)
select (select count(*) from w) as seen, w.* from w
where {other_key}
    or {key} = (select {last_key} from w l order by {backwards} limit 1)
order by {keys} limit :most"""

_RESEAL = """update duetime.{table} set
    {values}
where {key}"""

_OTHER_KEY = {
    bytes: "substr(w.{0}, 1, length(:seal::bytea)) = :seal and substr(w.{0}, 1, length(:head::bytea)) <> :head::bytea",
    str: "substr(w.{0}, 1, length(:text_seal::text)) = :text_seal"
    " and substr(w.{0}, 1, length(:text_head::text)) <> :text_head::text",
}
_NEW_VALUE = "{0} = case when substr({0}, 1, length(:{0}_old::{1})) = :{0}_old then :{0}_new else {0} end"
_TYPES: dict[type, str] = {bytes: "bytea", int: "integer", str: "text", UUID: "uuid"}


def reencryption_statements(tables: Iterable[SealedTable]) -> Iterator[tuple[str, str]]:
    for table in tables:
        yield table.find, _stale(table)
        yield table.put, _reseal(table)


def _stale(table: SealedTable) -> str:
    keys = [f"key_{place}" for place in range(len(table.key))]
    return _STALE.format(
        table=table.name,
        named=", ".join(f"t.{column} as {key}" for column, key in zip(table.key, keys, strict=True)),
        tenant="t.tenant_id" if table.of_tenants else "null as tenant_id",
        columns=", ".join(f"t.{column}" for column in table.columns),
        place=_row([f"t.{column}" for column in table.key]),
        after=_row([f":{key}::{_TYPES[type(first)]}" for key, first in zip(keys, table.first, strict=True)]),
        order=", ".join(f"t.{column}" for column in table.key),
        other_key="\n    or ".join(_OTHER_KEY[kind].format(column) for column, kind in table.columns.items()),
        key=_row([f"w.{key}" for key in keys]),
        last_key=", ".join(f"l.{key}" for key in keys),
        backwards=", ".join(f"l.{key} desc" for key in keys),
        keys=", ".join(f"w.{key}" for key in keys),
    )


def _reseal(table: SealedTable) -> str:
    return _RESEAL.format(
        table=table.name,
        values=",\n    ".join(_NEW_VALUE.format(column, _TYPES[kind]) for column, kind in table.columns.items()),
        key=" and ".join(f"{column} = :key_{place}" for place, column in enumerate(table.key)),
    )


def _row(parts: list[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"
