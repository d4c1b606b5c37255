"""A connection without session state that does not query the server for types.

asyncpg does not know array types. On each new connection it reads those of a statement from the catalog, with a query
whose JIT compilation may take seconds. asyncpg turns JIT off before, but behind a transaction pooler that setting may
reach another session. duetime uses only built-in arrays, whose OIDs never change, so they are listed here.

A server that is cut off sends neither an answer nor a reset. The kernel closes such a connection after seconds, also
while it is idle (the listener for hints) or waits for a commit that a standby has to confirm.
"""

import socket
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


_CUT_OFF_AFTER = 6_000
"""Milliseconds without an acknowledgement of what was sent. A lease of 15 s outlives that and a new connection."""
_TCP_OPTIONS = (
    ("SOL_SOCKET", "SO_KEEPALIVE", 1),
    ("IPPROTO_TCP", "TCP_KEEPIDLE", 5),
    ("IPPROTO_TCP", "TCP_KEEPINTVL", 1),
    ("IPPROTO_TCP", "TCP_KEEPCNT", 3),
    ("IPPROTO_TCP", "TCP_USER_TIMEOUT", _CUT_OFF_AFTER),
)


class _NoStatement(NamedTuple):
    """In place of the catalog query. It has a name, so that asyncpg keeps the caller's prepared statement."""

    name: str = "none"


class PlainConnection(Connection):
    def __init__(self, protocol: Any, transport: Any, *more: Any) -> None:
        super().__init__(protocol, transport, *more)
        set_dead_peer_timeout(transport.get_extra_info("socket"))

    def get_reset_query(self) -> str:
        return ""  # there is no session state to reset

    async def _introspect_types(self, typeoids: Iterable[int], timeout: float | None) -> Any:
        wanted = set(typeoids)
        if wanted <= _ARRAYS.keys():
            return [_described(oid) for oid in wanted], _NoStatement()
        return await super()._introspect_types(wanted, timeout)  # type: ignore[misc]


def set_dead_peer_timeout(link: socket.socket | None) -> None:
    """Let the kernel close a TCP connection whose other end is gone. Systems lack some of the options."""
    if link is None or link.family not in (socket.AF_INET, socket.AF_INET6):
        return
    for level, option, value in _TCP_OPTIONS:
        if hasattr(socket, option):
            link.setsockopt(getattr(socket, level), getattr(socket, option), value)


def _described(oid: int) -> dict[str, Any]:
    """An array type as the driver reads it from the catalog."""
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
