"""Days of history that some tenants keep for longer or shorter than others.

A day is dropped when no tenant keeps it any more. Until then, the rows of tenants that do not are deleted in batches.
Where no tenant has a retention of its own, nothing here runs.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from duetime.model.microseconds import EPOCH
from duetime.store.postgres.database import SQL, Connection, Database, affected
from duetime.store.postgres.partitions import DropGuard, attached_days, table_of

_AT_ONCE = 10_000


class Over(NamedTuple):
    """Whose rows of a day are past their retention."""

    everyone: bool
    """All tenants but these; else only these."""
    tenants: frozenset[int]


class Thinning:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._done: dict[int, Over] = {}
        """Days of which nothing is left to delete, as things were."""

    async def thin(self, past: datetime, now: datetime, own: Mapping[int, datetime], guard: DropGuard | None) -> int:
        """Delete rows that ended before `past`, or before the time of their tenant; returns how many."""
        removed = 0
        latest = min(max(past, *own.values()), now - timedelta(days=1))
        async with self._database.connection() as connection:
            days = await attached_days(connection, latest)
            self._done = {day: over for day, over in self._done.items() if day in days}
            for day in days:
                end = EPOCH + timedelta(days=day + 1)
                everyone = end < past
                over = Over(everyone, frozenset(each for each, until in own.items() if (end < until) != everyone))
                if self._done.get(day) == over or not (everyone or over.tenants):
                    continue
                if guard is not None and not await guard.may_detach(connection, day):
                    continue
                count = await _delete(connection, day, over)
                removed += count
                if not count:
                    self._done[day] = over
        return removed


async def _delete(connection: Connection, day: int, over: Over) -> int:
    whose = "tenant_id <> all($1::integer[])" if over.everyone else "tenant_id = any($1::integer[])"
    table = table_of(day)
    async with connection.transaction():
        tag = await connection.execute(
            f"delete from {table} where ctid = any(array(select ctid from {table} where {whose} limit {_AT_ONCE}))",
            list(over.tenants),
        )
        count = affected(tag)
        await connection.execute(SQL["note_thinned_day"], day, count)
    return count
