"""Where a contract test runs: a store, a second one beside it, and a clock that the test moves.

On SQLite the clock is the store's own. On PostgreSQL the two functions that everything asks for the time are replaced
by ones that read it from a table, so time stands still there too until it is told to move.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID, uuid4

import psycopg

from duetime.clock import ManualClock
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from duetime.store.sqlite.values import maybe_stamp, stamp
from tests.conftest import running
from tests.support.databases import Prepared, migrate, sqlite_file
from tests.support.postgres import Binaries

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)

_STANDING_CLOCK = """
create table public.standing_clock (moment timestamptz not null);
insert into public.standing_clock values ('{start}');
grant select on public.standing_clock to public;
create or replace function duetime.now() returns timestamptz language sql stable parallel safe
    as 'select moment from public.standing_clock';
create or replace function duetime.clock() returns timestamptz language sql volatile parallel safe
    as 'select moment from public.standing_clock';
"""


class Time(Protocol):
    """The store's clock, in the hands of the test."""

    @property
    def now(self) -> datetime: ...

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime: ...


class World(Protocol):
    @property
    def store(self) -> Store: ...

    @property
    def time(self) -> Time: ...

    def another(self) -> Store:
        """A second store on the same database, as another process would have it; the caller opens and closes it."""

    async def misplace(self, job_id: UUID, next_fire_at: datetime, last_fire_at: datetime | None = None) -> None:
        """Put a cursor where other rules would have it."""

    async def lose_claims(self, worker_id: UUID) -> None:
        """Remove the rows of a worker's claims, as no step of a store does; their runs stay as they are."""

    async def lose_worker(self, worker_id: UUID) -> None:
        """Remove the row of a worker."""

    async def lose_handovers(self) -> None:
        """Remove the deadlines of runs that were handed over."""

    async def rows_of(self, table: str) -> int:
        """How many rows there are, of what no store shows."""

    async def put_to_sleep(self, lane_id: int) -> None:
        """Let a lane sleep that has runs, which no store does."""


class SqliteTime:
    def __init__(self) -> None:
        self.clock = ManualClock(START)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        return self.clock.advance(days=days, hours=hours, minutes=minutes, seconds=seconds)


class SqliteWorld:
    """A file; what stands beside the store is its companion, since the file belongs to one process."""

    def __init__(self, path: Path) -> None:
        self.time = SqliteTime()
        self.store = SqliteStore(sqlite_file(path, START), clock=self.time.clock)

    def another(self) -> SqliteStore:
        return self.store.companion()

    async def misplace(self, job_id: UUID, next_fire_at: datetime, last_fire_at: datetime | None = None) -> None:
        statement = "update cursors set next_fire_at = ?, scan_at = ?, last_fire_at = ? where job_id = ?"
        values = (stamp(next_fire_at), stamp(next_fire_at), maybe_stamp(last_fire_at), job_id.bytes)
        await self.store.database.run(lambda connection, _: connection.raw.execute(statement, values))

    async def lose_claims(self, worker_id: UUID) -> None:
        await self._delete("delete from claims where worker_id = ?", worker_id.bytes)

    async def lose_worker(self, worker_id: UUID) -> None:
        await self._delete("delete from workers where id = ?", worker_id.bytes)

    async def lose_handovers(self) -> None:
        await self._delete("delete from handovers")

    async def _delete(self, statement: str, *values: object) -> None:
        await self.store.database.run(lambda connection, _: connection.raw.execute(statement, values))

    async def put_to_sleep(self, lane_id: int) -> None:
        statement = "update lanes set awake = 0 where id = ?"
        await self.store.database.run(lambda connection, _: connection.raw.execute(statement, [lane_id]))

    async def rows_of(self, table: str) -> int:
        count = f"select count(*) from {table}"
        return int(await self.store.database.run(lambda connection, _: connection.raw.execute(count).fetchone()[0]))


class PostgresTime:
    def __init__(self, database: Prepared) -> None:
        self._database = database
        self.now = START

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        self.now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        self._database.session().execute("update public.standing_clock set moment = %s", [self.now])
        return self.now


class PostgresWorld:
    """A database that is emptied before each test: making one anew would take longer than most tests."""

    def __init__(self, binaries: Binaries) -> None:
        self.server = running(binaries)
        self.database = _contract(binaries)
        self.dsn = self.database.take()
        self.time = PostgresTime(self.database)
        self.store = PostgresStore(self.dsn, pool_size=4)

    def another(self) -> PostgresStore:
        return PostgresStore(self.dsn, pool_size=4)

    async def misplace(self, job_id: UUID, next_fire_at: datetime, last_fire_at: datetime | None = None) -> None:
        statement = "update duetime.cursors set next_fire_at = %s, scan_at = %s, last_fire_at = %s where job_id = %s"
        self._execute(statement, next_fire_at, next_fire_at, last_fire_at, job_id)

    async def lose_claims(self, worker_id: UUID) -> None:
        self._execute("delete from duetime.claims where worker_id = %s", worker_id)

    async def lose_worker(self, worker_id: UUID) -> None:
        self._execute("delete from duetime.workers where id = %s", worker_id)

    async def lose_handovers(self) -> None:
        self._execute("delete from duetime.handovers")

    async def put_to_sleep(self, lane_id: int) -> None:
        self._execute("update duetime.lanes set awake = false where id = %s", lane_id)

    async def rows_of(self, table: str) -> int:
        [(count,)] = self._execute(f"select count(*) from duetime.{table}").fetchall()
        return int(count)

    def _execute(self, statement: str, *arguments: object) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.database.session().execute(statement, arguments)


@asynccontextmanager
async def unmigrated(world: World, path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two open stores on one database that has no schema, of the same kind as the world's."""
    if isinstance(world, PostgresWorld):
        name = f"empty_{uuid4().hex}"
        dsn = world.server.create_database(name)
        stores: tuple[Store, Store] = PostgresStore(dsn), PostgresStore(dsn)
    else:
        file = SqliteStore(path)
        name, stores = "", (file, file.companion())
    for store in stores:
        await store.open()
    yield stores
    for store in stores:
        await store.close()
    if isinstance(world, PostgresWorld):
        world.server.drop_database(name)


def execute(dsn: str, statement: str, *arguments: object) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement, arguments)


def query(dsn: str, statement: str, *arguments: object) -> list[tuple[Any, ...]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute(statement, arguments).fetchall()


@cache
def _contract(binaries: Binaries) -> Prepared:
    return Prepared(running(binaries), "contract", _with_standing_clock)


def _with_standing_clock(dsn: str) -> None:
    asyncio.run(migrate(PostgresStore(dsn)))
    execute(dsn, _STANDING_CLOCK.format(start=START.isoformat()))
    asyncio.run(migrate(PostgresStore(dsn)))  # room for the history of that day
