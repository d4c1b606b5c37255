"""A connection without session state, which asks the server nothing about types.

asyncpg knows no arrays: for each new connection it reads the catalog for those that a statement names, with a query
that the server may take seconds to compile (JIT), unless the setting that asyncpg changes before reaches the same
session. Behind a pooler of transactions it does not. The arrays that duetime uses are the server's own, and their
numbers never change: so they are said here.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from duetime.store.postgres.pool import Connection

_ARRAYS = {
    1000: ("_bool", 16),
    1001: ("_bytea", 17),
    1002: ("_char", 18),
    1005: ("_int2", 21),
    1007: ("_int4", 23),
    1009: ("_text", 25),
    1016: ("_int8", 20),
    1021: ("_float4", 700),
    1022: ("_float8", 701),
    1182: ("_date", 1082),
    1185: ("_timestamptz", 1184),
    1187: ("_interval", 1186),
    2951: ("_uuid", 2950),
}


class _NoStatement(NamedTuple):
    """Stands for the query that was not made: with a name, as one that has left the caller's statement in place."""

    name: str = "none"


class PlainConnection(Connection):
    def get_reset_query(self) -> str:
        return ""  # there is nothing to reset when it goes back to the pool

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        wanted = set(typeoids)
        if wanted <= _ARRAYS.keys():
            return [_described(oid) for oid in wanted], _NoStatement()
        return await super()._introspect_types(wanted, timeout)  # type: ignore[misc]


def _described(oid: int) -> dict[str, Any]:
    """An array as the driver reads it from the catalog."""
    name, element = _ARRAYS[oid]
    return {
        "oid": oid,
        "ns": "pg_catalog",
        "name": name,
        "kind": b"b",
        "basetype": None,
        "basetype_name": None,
        "elemtype": element,
        "elemtype_name": name[1:],
        "elemdelim": ",",
        "range_subtype": None,
        "range_subtype_name": None,
        "attrtypoids": None,
        "attrnames": None,
        "depth": 0,
    }
