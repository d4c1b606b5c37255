"""Runs that wait again: they hold no limit any more."""

from collections.abc import Collection, Iterable
from typing import Any

from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.shared.control import cancel_waiting


async def end_freed(connection: Connection, freed: Iterable[Iterable[Any]]) -> Collection[int]:
    """End those of these runs (id, tenant, whether it was asked to stop meanwhile) that were asked to stop. Returns the
    limits that may have room, for `parking.free` after the commit."""
    rows = [tuple(row) for row in freed]
    if not rows:
        return ()
    for run_id, tenant_id, cancel_requested in rows:
        if cancel_requested:
            await cancel_waiting(PostgresTransaction(connection), tenant_id, run_id)
    return await connection.fetchval(SQL["free_holds"], [row[0] for row in rows]) or ()
