"""Reading a day of history.

Rows have no order by time but the one in which they were written. A day is therefore counted and read through the
index of tenants and runs, on a connection of its own, which sees a snapshot and holds up no writer. The *mark* of an
archived day is the last row at that moment: rows of the day above it are new, and are archived by a further pass.
"""

import asyncio
from array import array
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeVar
from uuid import UUID

from duetime.store.protocol.archives import BODIES, IDS, NO_ID, NO_NUMBER, NUMBERS, HistoryRows
from duetime.store.shared.archives import MICROSECONDS_A_DAY, DayCount, SharedArchives
from duetime.store.shared.service_rows import FIRST_ID
from duetime.store.shared.transaction import Transaction
from duetime.store.sqlite.connection import Connection, meaning
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.transaction import SqliteTransaction
from duetime.store.sqlite.usage_counts import count_all
from duetime.store.sqlite.values import stamp

T = TypeVar("T")


class ArchiveRole(Role, SharedArchives):
    async def days_in_history(self, before: datetime) -> list[int]:
        bound = {"before": stamp(before) // MICROSECONDS_A_DAY * MICROSECONDS_A_DAY}
        return [row[0] for row in await self._read(lambda file: file.rows("days_in_history", bound))]

    async def tenants_of_day(self, day: int) -> list[tuple[int, int]]:
        rows = await self._read(lambda file: file.rows("tenants_of_day", _bounds(day)))
        return [(tenant_id, count) for tenant_id, count in rows]

    async def read_day(
        self, day: int, tenant_id: int, after: UUID | None, most_rows: int, most_bytes: int
    ) -> HistoryRows:
        wanted = {**_bounds(day), "tenant_id": tenant_id, "after": (after or FIRST_ID).bytes}
        while True:
            found = await self._read(lambda file: _rows(file, wanted, most_rows, most_bytes))  # noqa: B023
            if not found.more:
                return found
            whole = found.without_last_run()
            if whole.count:
                return whole
            most_rows, most_bytes = 2 * most_rows, 2 * most_bytes  # a run with many attempts

    async def end_reading(self) -> None:
        """Each read has its own connection."""

    async def count_day(self, day: int) -> DayCount:
        ((rows, mark),) = await self._read(lambda file: file.rows("count_of_day", _bounds(day)))
        return DayCount(rows, mark)

    async def make_room(self, day: int) -> None:
        """A table without partitions has room."""

    async def before_restore(self, transaction: Transaction) -> None:
        assert isinstance(transaction, SqliteTransaction)
        count_all(transaction.connection, transaction.at)

    async def after_restore(self, transaction: Transaction) -> None:
        await transaction.execute("skip_restored_usage")

    async def _read(self, work: Callable[[Connection], T]) -> T:
        path = self.database.path
        if path is None:
            return await self.database.run(lambda connection, _: work(connection))

        def read() -> T:
            try:
                connection = Connection(path)
                try:
                    return work(connection)
                finally:
                    connection.raw.close()
            except Exception as error:
                raise meaning(error, self.database.shown) from error

        return await asyncio.to_thread(read)


def _bounds(day: int) -> dict[str, Any]:
    return {"start": day * MICROSECONDS_A_DAY, "end": (day + 1) * MICROSECONDS_A_DAY}


def _rows(file: Connection, wanted: dict[str, Any], most_rows: int, most_bytes: int) -> HistoryRows:
    rows = file.rows("rows_of_day", {**wanted, "limit": most_rows})
    size, kept = 0, len(rows)
    for number, row in enumerate(rows):
        if size >= most_bytes:
            kept = number
            break
        size += sum(len(body) for body in row[-len(BODIES) :] if body is not None)
    columns = list(zip(*rows[:kept], strict=True)) or [()] * (len(IDS) + len(NUMBERS) + len(BODIES))
    ids, numbers, bodies = columns[: len(IDS)], columns[len(IDS) : -len(BODIES)], columns[-len(BODIES) :]
    return HistoryRows(
        kept,
        {
            name: b"".join([NO_ID if each is None else each for each in column])
            for name, column in zip(IDS, ids, strict=True)
        },
        {
            name: array("q", [NO_NUMBER if each is None else each for each in column])
            for name, column in zip(NUMBERS, numbers, strict=True)
        },
        {name: _packed(column) for name, column in zip(BODIES, bodies, strict=True)},
        more=len(rows) >= most_rows or kept < len(rows),
    )


def _packed(column: Sequence[bytes | str | None]) -> tuple["array[int]", bytes]:
    parts = [each.encode() if isinstance(each, str) else each for each in column]
    return array("i", [-1 if each is None else len(each) for each in parts]), b"".join([each or b"" for each in parts])
