"""Appending to the event log. Without a listener it costs reading one row."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from uuid import UUID

from duetime.model.event import EventKind
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.values import packed, places


def is_heard(connection: Connection, now: int) -> bool:
    return bool(connection.value("is_heard", {"now": now}))


def append_events(connection: Connection, now: int, kind: int, tenant_id: int, ids: Sequence[UUID]) -> None:
    if ids and is_heard(connection, now):
        _append(connection, now, kind, tenant_id, packed(ids))


def append_run_events(connection: Connection, now: int, kind: EventKind, run_ids: Iterable[UUID]) -> None:
    """Append events of live runs of any tenants. The caller has checked that a listener exists."""
    ids = packed(run_ids)
    by_tenant: dict[int, list[bytes]] = defaultdict(list)
    for run_id, tenant_id in connection.rows("tenants_of_runs", {"ids": ids, "ids_places": places(ids)}):
        by_tenant[tenant_id].append(run_id)
    for tenant_id, found in by_tenant.items():
        _append(connection, now, kind, tenant_id, b"".join(found))


def _append(connection: Connection, now: int, kind: int, tenant_id: int, ids: bytes) -> None:
    connection.execute("append_events", {"now": now, "kind": kind, "tenant_id": tenant_id, "ids": ids})
