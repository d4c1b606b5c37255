"""Runs that wait again as if they had not been claimed: they hold no limit any more, and not all of them may stay."""

from collections.abc import Sequence
from typing import Any

from duetime.store.shared.control import cancel_waiting
from duetime.store.shared.pausing import withdraw_returned
from duetime.store.shared.transaction import RunMaker
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import free_holds
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity


def end_freed(connection: Connection, now: int, run_maker: RunMaker, freed: Sequence[tuple[Any, ...]]) -> None:
    """End those of these runs (id, tenant, whether it was asked to stop meanwhile) that were asked to stop, and
    withdraw those whose jobs are paused."""
    if not freed:
        return
    free_holds(connection, now, [row[0] for row in freed])
    transaction = SqliteTransaction(connection, now)
    for run_id, tenant_id, cancel_requested in freed:
        if cancel_requested:
            at_once(cancel_waiting(transaction, tenant_id, identity(run_id)))
    at_once(withdraw_returned(transaction, run_maker, [identity(row[0]) for row in freed]))
