"""Days of history that some tenants or jobs keep for longer or shorter than others.

A day is dropped when no tenant keeps it any more; rows that jobs keep for longer stay (`kept_rows.py`). Until then,
rows that are past their retention are deleted, block by block. Where no tenant and no job has a retention of its own,
nothing here runs.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from duetime.clock import monotonic
from duetime.model.microseconds import EPOCH
from duetime.store.postgres.database import DEADLINE, SQL, Connection, Database, affected
from duetime.store.postgres.partitions import DropGuard, attached_days, table_of

_AT_ONCE = 10_000
_BLOCKS = 200
"""Blocks that one transaction looks at: about as many rows."""
_SECONDS = 5.0
"""After these, the next round goes on."""
_DELETE = """delete from {table} where ctid = any(array(
    select h.ctid from {table} h {own} where h.ctid >= $1::text::tid and h.ctid < $2::text::tid and {past}))"""
# The options are on the row that ends a run: they hold for all its rows of the day.
_OWN = """cross join lateral (
    select max(duetime.kept_days(k.options)) as days from {table} k
    where k.tenant_id = h.tenant_id and k.run_id = h.run_id and k.end_state is not null) o"""
_PAST = "case when o.days is null then {whose} else o.days = any($4::integer[]) end"


class Over(NamedTuple):
    """Whose rows of a day are past their retention."""

    everyone: bool
    """All tenants but these; else only these."""
    tenants: frozenset[int]
    jobs: frozenset[int]
    """Rows of jobs that keep them for so many days. Others of jobs with a retention of their own are not past."""


class Thinning:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._done: dict[int, Over] = {}
        """Days of which nothing is left to delete, as things were."""
        self._places: dict[int, int] = {}
        """The next block to look at, of days that are not done."""

    async def thin(self, past: datetime, now: datetime, own: Mapping[int, datetime], guard: DropGuard | None) -> int:
        """Delete rows that ended before `past`, or before the time of their tenant or job; returns how many."""
        removed = 0
        dropped, latest = min([past, *own.values()]), max([past, *own.values()])
        async with self._database.connection() as connection:
            keeps = {row["day"]: row["keeps"] for row in await connection.fetch(SQL["retentions_of_jobs"])}
            if not own and not keeps:
                return 0
            days = [
                day
                for day in await attached_days(connection, now - timedelta(days=1))
                if dropped <= _end(day) and (_end(day) < latest or day in keeps)
            ]
            self._done = {day: over for day, over in self._done.items() if day in days}
            self._places = {day: place for day, place in self._places.items() if day in days}
            for day in days:
                everyone = _end(day) < past
                tenants = frozenset(each for each, until in own.items() if (_end(day) < until) != everyone)
                jobs = frozenset(each for each in keeps.get(day, ()) if _end(day) < now - timedelta(days=each))
                over = Over(everyone, tenants, jobs)
                if self._done.get(day) == over or not (everyone or tenants or jobs):
                    continue
                if guard is not None and not await guard.may_detach(connection, day):
                    continue
                removed += await self._delete(connection, day, over)
        return removed

    async def _delete(self, connection: Connection, day: int, over: Over) -> int:
        """Go on where the last round stopped, until the end of the day, or for now."""
        table, removed, until = table_of(day), 0, monotonic() + _SECONDS
        row = await connection.fetchrow(SQL["keeps_of_day"], day)  # the guard may have counted it only now
        own = row is not None and bool(row["keeps"])
        whose = f"h.tenant_id {'<> all' if over.everyone else '= any'}($3::integer[])"
        statement = _DELETE.format(
            table=table, own=_OWN.format(table=table) if own else "", past=_PAST.format(whose=whose) if own else whose
        )
        asked = [list(over.tenants), list(over.jobs)] if own else [list(over.tenants)]
        blocks = await connection.fetchval("select pg_relation_size($1::text::regclass) / 8192", table)
        place = self._places.get(day, 0)
        while place < blocks and removed < _AT_ONCE and monotonic() < until:
            bounds = f"({place},0)", f"({place + _BLOCKS},0)"
            async with connection.transaction():
                await connection.execute("set local enable_seqscan = off; set local jit = off")
                count = affected(await connection.execute(statement, *bounds, *asked, timeout=DEADLINE))
                await connection.execute(SQL["note_thinned_day"], day, count)
            removed += count
            place += _BLOCKS
        self._places[day] = place if place < blocks else 0
        if place >= blocks:
            self._done[day] = over
        return removed


def _end(day: int) -> datetime:
    return EPOCH + timedelta(days=day + 1)
