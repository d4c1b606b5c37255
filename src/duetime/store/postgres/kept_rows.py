"""Rows that jobs keep for longer than all others of their day (the option `retention`).

When a day has ended its retention, it is detached, and the rows that are kept take its place: this costs as much as
there are kept rows, however many others there are. It is repeated when the retention of some of them has ended. While
the day is rewritten, for as long as copying takes, reads do not find the kept rows. Killed in between, the next round
finds the detached table and does it again.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from duetime.model.microseconds import EPOCH
from duetime.store.postgres.database import SQL, Connection, affected

_COPY = """with own as materialized (
    select distinct tenant_id, run_id from {table} where duetime.kept_days(options) = any($1::integer[])
)
insert into {kept} select h.* from own o join {table} h on h.tenant_id = o.tenant_id and h.run_id = o.run_id"""
_TIMEOUT = 600.0


class KeptRows:
    def __init__(self, now: datetime) -> None:
        self._now = now

    async def keeps(self, connection: Connection, day: int) -> list[int]:
        """The retentions, in days, of the rows of a closed day that are kept now."""
        row = await connection.fetchrow(SQL["keeps_of_day"], day)
        return [] if row is None else self._valid(day, row["keeps"])

    async def is_settled(self, connection: Connection, day: int) -> bool:
        """Whether a day has only rows that are kept."""
        row = await connection.fetchrow(SQL["keeps_of_day"], day)
        return row is not None and row["only_kept"] and self._valid(day, row["keeps"]) == row["keeps"]

    def _valid(self, day: int, keeps: Sequence[int]) -> list[int]:
        end = EPOCH + timedelta(days=day + 1)
        return [days for days in keeps if end >= self._now - timedelta(days=days)]


async def keep_only(connection: Connection, day: int, table: str, keeps: Sequence[int]) -> None:
    """Replace a detached table by one with the rows that are kept; in the caller's transaction."""
    kept = f"{table}_kept"
    await connection.execute(f"create table {kept} (like duetime.history including all)")
    tag = await connection.execute(_COPY.format(table=table, kept=kept), list(keeps), timeout=_TIMEOUT)
    await connection.execute(SQL["note_kept_rows"], day, list(keeps), affected(tag))
    await connection.execute(f"drop table {table}; alter table {kept} rename to {table.rpartition('.')[2]}")
