"""Transactions of the shared roles on SQLite: their coroutines run on the store's thread and never suspend."""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from duetime.store.shared.transaction import Row, Rows, SingleStatements, Table, Work
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.database import Database
from duetime.store.sqlite.values import encoded, moment

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SqliteTransaction:
    connection: Connection
    at: int
    """The time, in microseconds."""

    async def rows(self, name: str, /, **given: Any) -> Sequence[Row]:
        return self.connection.records(name, encoded(given, self.at))

    async def row(self, name: str, /, **given: Any) -> Row | None:
        found = self.connection.records(name, encoded(given, self.at))
        return found[0] if found else None

    async def value(self, name: str, /, **given: Any) -> Any:
        found = self.connection.records(name, encoded(given, self.at))
        return next(iter(found[0].values())) if found else None

    async def execute(self, name: str, /, **given: Any) -> int:
        return self.connection.execute(name, encoded(given, self.at))

    async def many(self, name: str, given: Sequence[Mapping[str, Any]], /) -> None:
        self.connection.many(name, [encoded(each, self.at) for each in given])

    async def each(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> Rows:
        found: list[Row] = []
        for each in self._encoded(fields, rows, given):
            found += self.connection.records(name, each)
        return found

    async def put(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> None:
        if rows:
            self.connection.many(name, self._encoded(fields, rows, given))

    async def lock(self, name: str, /, **given: Any) -> Row | None:
        return None

    async def now(self) -> datetime:
        return moment(self.at)

    async def compute(self, function: Callable[..., T], /, *given: Any) -> T:
        return function(*given)

    def _encoded(self, fields: Sequence[str], rows: Table, given: Mapping[str, Any]) -> list[dict[str, Any]]:
        same = encoded(given, self.at)
        return [{**same, **encoded(dict(zip(fields, row, strict=True)), self.at)} for row in rows]


@dataclass(frozen=True, slots=True)
class SqliteTransactions(SingleStatements):
    database: Database

    def of(self, tenant_id: int) -> "SqliteTransactions":
        return self

    def reading(self, tenant_id: int) -> "SqliteTransactions":
        return self

    async def run(self, work: Work[T]) -> T:
        return await self.database.run(lambda connection, now: at_once(work(SqliteTransaction(connection, now))))

    async def alone(self, work: Work[T]) -> T:
        return await self.run(work)


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends."""
    try:
        work.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    work.close()
    raise RuntimeError("the work of a transaction may await only its transaction")
