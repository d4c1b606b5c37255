"""Transactions of the shared roles on PostgreSQL."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from duetime.process.slices import batches
from duetime.store.postgres.database import PARAMETERS, SQL, Connection, Database, affected, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.shared.transaction import AT_ONCE, BYTES_AT_ONCE, Row, Rows, SingleStatements, Table, Work

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PostgresTransaction:
    connection: Connection

    async def rows(self, name: str, /, **given: Any) -> Sequence[Row]:
        return await self.connection.fetch(SQL[name], *_arguments(name, given))

    async def row(self, name: str, /, **given: Any) -> Row | None:
        return await self.connection.fetchrow(SQL[name], *_arguments(name, given))

    async def value(self, name: str, /, **given: Any) -> Any:
        return await self.connection.fetchval(SQL[name], *_arguments(name, given))

    async def execute(self, name: str, /, **given: Any) -> int:
        return affected(await self.connection.execute(SQL[name], *_arguments(name, given)))

    async def many(self, name: str, given: Sequence[Mapping[str, Any]], /) -> None:
        if given:
            await self.connection.executemany(SQL[name], [_arguments(name, each) for each in given])

    async def each(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> Rows:
        found: list[Row] = []
        for part in batches(rows, AT_ONCE, BYTES_AT_ONCE, _content):
            arrays = dict(zip(fields, columns(part, len(fields)), strict=True))
            found += await self.connection.fetch(SQL[name], *_arguments(name, {**given, **arrays}))
        return found

    async def put(self, name: str, fields: Sequence[str], rows: Table, /, **given: Any) -> None:
        await self.each(name, fields, rows, **given)

    async def lock(self, name: str, /, **given: Any) -> Row | None:
        # All rows, although the first is the answer: a row that is not fetched is not locked.
        rows = await self.rows(name, **given)
        return rows[0] if rows else None

    async def now(self) -> datetime:
        now: datetime = await self.value("clock")
        return now

    async def compute(self, function: Callable[..., T], /, *given: Any) -> T:
        return await asyncio.to_thread(function, *given)


@dataclass(frozen=True, slots=True)
class PostgresTransactions(SingleStatements):
    database: Database
    tenant_id: int | None = None
    snapshot: bool = False

    def of(self, tenant_id: int) -> "PostgresTransactions":
        return PostgresTransactions(self.database, tenant_id)

    def reading(self, tenant_id: int) -> "PostgresTransactions":
        return PostgresTransactions(self.database, tenant_id, snapshot=True)

    @retry_on_deadlock
    async def run(self, work: Work[T]) -> T:
        async with self._transaction() as connection:
            return await work(PostgresTransaction(connection))

    async def alone(self, work: Work[T]) -> T:
        """One statement is a transaction by itself, unless it needs the role of a tenant."""
        return await (self._without_begin(work) if self.tenant_id is None else self.run(work))

    @retry_on_deadlock
    async def _without_begin(self, work: Work[T]) -> T:
        async with self.database.connection() as connection:
            return await work(PostgresTransaction(connection))

    def _transaction(self) -> AbstractAsyncContextManager[Connection]:
        if self.tenant_id is None:
            return self.database.transaction()
        return self.database.acting_for(self.tenant_id, snapshot=self.snapshot)


def is_one_statement(rows: Table) -> bool:
    """Whether `each` and `put` need one statement for these rows."""
    return len(rows) <= AT_ONCE and sum(map(_content, rows)) <= BYTES_AT_ONCE


def _arguments(name: str, given: Mapping[str, Any]) -> list[Any]:
    return [given[parameter] for parameter in PARAMETERS[name]]


def _content(row: Sequence[Any]) -> int:
    return sum([len(value) for value in row if type(value) is bytes])
