"""Usage by day, counted from the partitions of history.

Rows become visible in another order than they are written, so nothing is added up: each time, a day that is not over
is counted anew, by blocks, and replaces what was counted before. A day that is over is counted once
more and closed, by the loop or by the pruner. Before a closed day is dropped, its rows are compared with those that
were counted: a transaction may have committed late.
"""

from collections.abc import Container
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from asyncpg.exceptions import DeadlockDetectedError, UndefinedTableError

from duetime.model.microseconds import EPOCH
from duetime.model.run import RunState
from duetime.store.postgres.database import DEADLINE, MARK, SQL, Connection
from duetime.store.postgres.partitions import DropGuard, attached_days, table_of
from duetime.store.postgres.role import Role
from duetime.store.shared.usage_counts import SETTLED, SharedUsageCounts

_DAY = timedelta(days=1)
_BLOCKS = 2000
"""Blocks that one statement reads, so that no snapshot lasts long: 16 MB."""
_COUNT = f"""{MARK}select tenant_id, lane_id, count(*) as rows,
    count(*) filter (where end_state is not null and end_state <> {RunState.SKIPPED.value}) as runs,
    count(*) filter (where end_state = {RunState.FAILED.value}) as failed, count(started_at) as attempts,
    coalesce(sum(greatest(0, (extract(epoch from finished_at - started_at) * 1000000)::bigint)), 0)::bigint as run_us,
    sum(coalesce(octet_length(args), 0) + coalesce(octet_length(result), 0) + coalesce(octet_length(logs), 0)
        + coalesce(octet_length(error), 0))::bigint as bytes,
    count(*) filter (where position('"retention":'::bytea in options) > 0) as own
from {{table}} where ctid >= $1::text::tid and ctid < $2::text::tid group by tenant_id, lane_id"""
_TAKEN = (UndefinedTableError, DeadlockDetectedError)
"""Another node has dropped the day, or is detaching it: `detach partition … finalize` holds the table and waits for
older snapshots, such as that of a count which waits for the table."""
_KEEPS = f"""{MARK}select distinct duetime.kept_days(options) as days from {{table}}
where ctid >= $1::text::tid and ctid < $2::text::tid and position('"retention":'::bytea in options) > 0"""
_SUMS = ("runs", "failed", "attempts", "run_us", "bytes")


class UsageCountRole(Role, SharedUsageCounts):
    async def count_usage(self, now: datetime) -> bool:
        async with self.database.connection() as connection:
            days = await attached_days(connection, now + 8 * _DAY)
            closed = {row["day"] for row in await connection.fetch(SQL["usage_days"]) if row["closed_at"] is not None}
        today = (now - EPOCH) // _DAY
        for day in days:
            if day not in closed and day <= today:
                over = now >= EPOCH + (day + 1) * _DAY + SETTLED
                async with self.database.connection() as connection:
                    with suppress(*_TAKEN):  # it was counted before
                        await count_day(connection, day, now, closed_at=now if over else None)
        return False

    async def final_days(self, first: int, last: int) -> Container[int]:
        async with self.database.connection() as connection:
            rows = await connection.fetch(SQL["usage_days"])
        return {row["day"] for row in rows if row["closed_at"] is not None and first <= row["day"] <= last}

    async def counted_until(self) -> datetime | None:
        async with self.database.connection() as connection:
            rows = await connection.fetch(SQL["usage_days"])
        return rows[-1]["counted_at"].astimezone(UTC) if rows else None

    async def forget_days(self, before: int) -> None:
        async with self.database.connection() as connection:
            await connection.execute(SQL["prune_usage_days"], before)


class CountedDays:
    """A day of history is counted before it is dropped, if another guard agrees to that."""

    def __init__(self, now: datetime, inner: DropGuard | None) -> None:
        self._now = now
        self._inner = inner

    async def may_detach(self, connection: Connection, day: int) -> bool:
        if await connection.fetchrow(SQL["counted_usage_day"], day) is None:
            try:
                await count_day(connection, day, self._now, closed_at=self._now)
            except _TAKEN:
                return False
        return self._inner is None or await self._inner.may_detach(connection, day)

    async def may_drop(self, connection: Connection, day: int, *, partly: bool = False) -> bool:
        rows = await connection.fetchval(SQL["counted_usage_day"], day)
        if rows is not None:
            with suppress(UndefinedTableError):  # another node has dropped it
                found = await counted(connection, table_of(day))
                if found.rows != rows:
                    async with connection.transaction():
                        await put(connection, day, found, self._now, closed_at=self._now)
        return self._inner is None or await self._inner.may_drop(connection, day, partly=partly)


class Found:
    """The sums of a day by tenant and lane, and for how many days jobs keep rows of it."""

    def __init__(self) -> None:
        self.sums: dict[tuple[int, int], dict[str, int]] = {}
        self.keeps: set[int] = set()

    @property
    def rows(self) -> int:
        return sum(sums["rows"] for sums in self.sums.values())


async def count_day(connection: Connection, day: int, now: datetime, *, closed_at: datetime | None) -> None:
    """Count a day that is not closed."""
    await connection.execute(SQL["begin_usage_day"], day)
    found = await counted(connection, table_of(day))
    async with connection.transaction():
        # Two nodes may have counted: one is as right as the other.
        if await connection.fetchrow(SQL["hold_usage_day"], day) is not None:
            await put(connection, day, found, now, closed_at=closed_at)


async def counted(connection: Connection, table: str) -> Found:
    found = Found()
    start, blocks = 0, 1
    while start < blocks:
        blocks = await connection.fetchval("select pg_relation_size($1::text::regclass) / 8192", table)
        bounds = f"({start},0)", f"({start + _BLOCKS},0)"
        async with connection.transaction():
            await connection.execute("set local enable_seqscan = off; set local jit = off")
            rows = await connection.fetch(_COUNT.format(table=table), *bounds, timeout=DEADLINE)
            if any(row["own"] for row in rows):
                own = await connection.fetch(_KEEPS.format(table=table), *bounds, timeout=DEADLINE)
                found.keeps.update(row["days"] for row in own if row["days"] is not None)
        for row in rows:
            sums = found.sums.setdefault((row["tenant_id"], row["lane_id"]), dict.fromkeys(("rows", *_SUMS), 0))
            for name in sums:
                sums[name] += row[name]
        start += _BLOCKS
    return found


async def put(connection: Connection, day: int, found: Found, now: datetime, *, closed_at: datetime | None) -> None:
    """Replace what was counted of a day."""
    await connection.execute(SQL["forget_usage_of_day"], day)
    whose = [[key[place] for key in found.sums] for place in (0, 1)]
    columns = [[sums[name] for sums in found.sums.values()] for name in _SUMS]
    await connection.execute(SQL["put_usage"], day, *whose, *columns)
    await connection.execute(SQL["end_usage_day"], day, now, closed_at, found.rows, sorted(found.keeps))
