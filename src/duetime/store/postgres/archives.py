"""Reading a day of history, column by column.

The database packs each column of a batch into one value: ids and numbers in fixed width, texts and bytes one after the
other with their lengths. So a batch of 50,000 rows is one row with some 30 values, and Python handles no single row.
"""

import sys
from array import array
from contextlib import suppress
from datetime import datetime
from uuid import UUID

import asyncpg

from duetime.store.postgres.database import CONNECT_DEADLINE, DEADLINE, MARK, SQL, Connection
from duetime.store.postgres.partitions import attach_day, attached_days, is_day_here, table_of
from duetime.store.postgres.role import Role
from duetime.store.protocol.archives import BODIES, IDS, NO_NUMBER, NUMBERS, HistoryRows
from duetime.store.shared.archives import DayCount, SharedArchives
from duetime.store.shared.service_rows import FIRST_ID

_LONG = 20 * DEADLINE
"""Seconds for a statement that reads a whole day."""
_MOMENTS = frozenset({"due_at", "ready_at", "started_at", "first_started_at", "finished_at"})
_EPOCHS_APART = "262968 hours"
"""PostgreSQL counts microseconds from the year 2000, and sends the smallest number for `-infinity`."""


def _packed() -> str:
    ids = [f"string_agg(uuid_send(coalesce({name}, '{UUID(int=0)}')), '')" for name in IDS]
    numbers = [
        f"string_agg(timestamptz_send(coalesce({name} + '{_EPOCHS_APART}', '-infinity')), '')"
        if name in _MOMENTS
        else f"string_agg(int8send(coalesce({name}::bigint, {NO_NUMBER + 1} - 1)), '')"
        for name in NUMBERS
    ]
    bodies = []
    for name in BODIES:
        body = f"convert_to({name}, 'UTF8')" if name == "error" else name
        bodies.append(f"string_agg(int4send(coalesce(octet_length({name}), -1)), '')")
        bodies.append(f"string_agg({body}, '')")
    return ", ".join(("count(*)", *ids, *numbers, *bodies))


_READ = f"""select {_packed()} from (
    select * from (
        select w.*, sum(w.size) over (
            order by w.run_id, w.fence, w.finished_at rows unbounded preceding) - w.size as above
        from (
            select h.*, {" + ".join(f"coalesce(octet_length(h.{name}), 0)" for name in BODIES)} as size
            from {{table}} h where h.tenant_id = $1 and h.run_id > $2
            order by h.run_id, h.fence, h.finished_at limit $3) w) x
    where x.above < $4 order by x.run_id, x.fence, x.finished_at) y"""


class ArchiveRole(Role, SharedArchives):
    _connection: Connection | None = None

    async def days_in_history(self, before: datetime) -> list[int]:
        async with self.database.connection() as connection:
            here = await attached_days(connection, before)
            rows = await connection.fetch(SQL["days_in_files"])
        return sorted(set(here) - {row["day"] for row in rows})

    async def tenants_of_day(self, day: int) -> list[tuple[int, int]]:
        connection = await self._reader()
        if not await is_day_here(connection, day):
            return []
        with self.database.meaning():
            rows = await connection.fetch(
                f"{MARK}select tenant_id, count(*) from {table_of(day)} group by tenant_id order by 1", timeout=_LONG
            )
        return [(row[0], row[1]) for row in rows]

    async def read_day(
        self, day: int, tenant_id: int, after: UUID | None, most_rows: int, most_bytes: int
    ) -> HistoryRows:
        connection = await self._reader()
        statement = MARK + _READ.format(table=table_of(day))
        while True:
            with self.database.meaning():
                row = await connection.fetchrow(
                    statement, tenant_id, after or FIRST_ID, most_rows, most_bytes, timeout=_LONG
                )
            assert row is not None
            found = _unpacked(tuple(row), most_rows, most_bytes)
            if not found.more:
                return found
            whole = found.without_last_run()
            if whole.count:
                return whole
            most_rows, most_bytes = 2 * most_rows, 2 * most_bytes  # a run with many attempts

    async def end_reading(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=CONNECT_DEADLINE)

    async def count_day(self, day: int) -> DayCount:
        async with self.database.connection() as connection:
            if not await is_day_here(connection, day):
                return DayCount(0, None)
            return DayCount(
                await connection.fetchval(f"{MARK}select count(*) from {table_of(day)}", timeout=_LONG), None
            )

    async def make_room(self, day: int) -> None:
        async with self.database.connection() as connection:
            await attach_day(connection, day)
            await connection.execute(SQL["note_restored_usage"], day)

    async def _reader(self) -> Connection:
        if self._connection is None or self._connection.is_closed():
            self._connection = await self.database.connect()
            with self.database.meaning():
                # The order of an index, whatever the statistics say; and memory for a batch.
                await self._connection.execute(
                    "set enable_seqscan = off; set jit = off; set max_parallel_workers_per_gather = 0"
                )
        return self._connection


def _unpacked(row: tuple[int | bytes | None, ...], most_rows: int, most_bytes: int) -> HistoryRows:
    (count, *columns) = row
    assert isinstance(count, int)
    values = iter([column if isinstance(column, bytes) else b"" for column in columns])
    ids = {name: next(values) for name in IDS}
    numbers = {name: _numbers("q", next(values)) for name in NUMBERS}
    bodies = {name: (_numbers("i", next(values)), next(values)) for name in BODIES}
    size = sum(len(body) for _, body in bodies.values())
    return HistoryRows(count, ids, numbers, bodies, more=count >= most_rows or size >= most_bytes)


def _numbers(code: str, body: bytes) -> "array[int]":
    read: array[int] = array(code, body)
    if sys.byteorder == "little":
        read.byteswap()
    return read
