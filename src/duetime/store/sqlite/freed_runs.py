"""Runs that wait again: they hold no limit any more."""

from collections.abc import Sequence
from typing import Any

from duetime.store.shared.control import cancel_waiting
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import free_holds
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity


def end_freed(connection: Connection, now: int, freed: Sequence[tuple[Any, ...]]) -> None:
    """End those of these runs (id, tenant, whether it was asked to stop meanwhile) that were asked to stop."""
    free_holds(connection, now, [row[0] for row in freed])
    for run_id, tenant_id, cancel_requested in freed:
        if cancel_requested:
            at_once(cancel_waiting(SqliteTransaction(connection, now), tenant_id, identity(run_id)))
