"""Runs that wait again as if they had not been claimed: they hold no limit any more, and not all of them may stay."""

from collections.abc import Collection, Iterable
from typing import Any

from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.shared.control import cancel_waiting
from duetime.store.shared.pausing import withdraw_returned
from duetime.store.shared.transaction import RunMaker


async def end_freed(connection: Connection, run_maker: RunMaker, freed: Iterable[Iterable[Any]]) -> Collection[int]:
    """End those of these runs (id, tenant, whether it was asked to stop meanwhile) that were asked to stop, and
    withdraw those whose jobs are paused. Returns the limits that may have room, for `parking.free` after the commit."""
    rows = [tuple(row) for row in freed]
    if not rows:
        return ()
    transaction = PostgresTransaction(connection)
    for run_id, tenant_id, cancel_requested in rows:
        if cancel_requested:
            await cancel_waiting(transaction, tenant_id, run_id)
    await withdraw_returned(transaction, run_maker, [row[0] for row in rows])
    return await connection.fetchval(SQL["free_holds"], [row[0] for row in rows]) or ()
