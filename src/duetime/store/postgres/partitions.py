"""The day partitions of history, by the time of the end, and of `spent`, by the time in the run's id.

Partitions are attached at start and a week ahead, so that the next day's partition exists at midnight. ATTACH does not
wait for readers; CREATE … PARTITION OF would. A partition is detached concurrently before it is dropped: a DROP that
waits for one reader would block every completion. The statement's timeout bounds lock waits; the next round retries.

A day of `spent` that was dropped is never attached again, whatever the clock shows: its runs would act once more.
`meta` keeps the first day that was not dropped.

A `DropGuard` decides which days of history may be dropped, where it is archived first (`archived_days.py`).
"""

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple, Protocol

import asyncpg

from duetime.errors import reason_of
from duetime.ids import first_id_at
from duetime.model.microseconds import EPOCH
from duetime.store.postgres.database import SQL, Connection, Database
from duetime.store.postgres.kept_rows import KeptRows, keep_only
from duetime.store.rules.spent_days import SPENT_FROM

log = logging.getLogger("duetime.store")

AHEAD = 7
_LOCK_TIMEOUT = 3.0
_RETRY_LATER = (
    TimeoutError,
    asyncpg.QueryCanceledError,
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    # Another node does the same at this moment.
    asyncpg.ObjectNotInPrerequisiteStateError,
    asyncpg.UndefinedTableError,
)
_CREATE = "create table if not exists duetime.{name} (like duetime.{table} including all);"
_ATTACH = "alter table duetime.{table} attach partition duetime.{name} for values from ('{start}') to ('{end}');"


_IS_ATTACHED = "select relispartition from pg_catalog.pg_class where oid = to_regclass($1)"
_LOCK = "select pg_advisory_xact_lock(hashtextextended('duetime partitions', 0))"


class DayTable(NamedTuple):
    """A table with one partition per UTC day."""

    table: str
    bound: Callable[[datetime], str]
    """The first value of a day."""

    def name(self, day: datetime) -> str:
        return f"{self.table}_{day:%Y%m%d}"

    def end_of(self, name: str) -> datetime:
        """The end of a partition's day."""
        day = name.removeprefix(f"{self.table}_")
        return datetime.strptime(day, "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)

    def day_of(self, name: str) -> int:
        """A partition's day, numbered from 1970-01-01."""
        return (self.end_of(name) - EPOCH).days - 1

    @property
    def pattern(self) -> str:
        return f"^{self.table}_[0-9]{{8}}$"


HISTORY = DayTable("history", datetime.isoformat)
SPENT = DayTable("spent", lambda day: str(first_id_at(day)))


async def keep_room_ahead(database: Database) -> int:
    """Attach the partitions of yesterday, today and the week ahead; returns how many were missing."""
    async with database.connection() as connection:
        today: datetime = await connection.fetchval("select date_trunc('day', duetime.clock(), 'UTC')")
        days = [today + timedelta(days=offset) for offset in range(-1, AHEAD + 1)]
        attached = 0
        for of in (HISTORY, SPENT):
            if await _missing(connection, of, days):
                attached += await _attach(connection, of, days)
        return attached


class DropGuard(Protocol):
    async def may_detach(self, connection: Connection, day: int) -> bool: ...

    async def may_drop(self, connection: Connection, day: int, *, partly: bool = False) -> bool:
        """Asked once the day is detached, when no row can be added. False: it is attached again. `partly`: some rows
        stay."""


async def drop_older(database: Database, past: datetime, now: datetime, guard: DropGuard | None = None) -> int:
    """Detach and drop the partitions of history whose day ended before `past`; returns how many.

    Yesterday's partition always stays: it is needed if the clock steps back over midnight. A partition that a
    transaction reads stays until a later round. Of a day that jobs keep rows of, the others go (`kept_rows.py`).
    """
    async with database.connection() as connection:
        return await _drop(connection, HISTORY, min(past, now - timedelta(days=1)), guard, KeptRows(now))


async def drop_spent(database: Database, before: datetime) -> int:
    """Detach and drop the partitions of `spent` whose day ended by `before`; returns how many."""
    async with database.connection() as connection:
        await connection.execute(SQL["forget_spent"], SPENT_FROM, before.date().isoformat())
        return await _drop(connection, SPENT, before + timedelta(microseconds=1))


async def attached_days(connection: Connection, before: datetime) -> list[int]:
    """The days of history that ended before this time and have a partition."""
    names = await _attached(connection, HISTORY)
    return [HISTORY.day_of(name) for name in names if HISTORY.end_of(name) < before]


async def oldest_day(connection: Connection) -> datetime | None:
    """When the first day of history that has a partition began."""
    names = await _attached(connection, HISTORY)
    return HISTORY.end_of(names[0]) - timedelta(days=1) if names else None


async def attach_day(connection: Connection, day: int) -> None:
    days = [EPOCH + timedelta(days=day)]
    if await _missing(connection, HISTORY, days):
        await _attach(connection, HISTORY, days)


async def is_day_here(connection: Connection, day: int) -> bool:
    """Whether history has a table for a day, attached or not."""
    return bool(await connection.fetchval("select to_regclass($1) is not null", table_of(day)))


def table_of(day: int) -> str:
    return f"duetime.{HISTORY.name(EPOCH + timedelta(days=day))}"


async def _drop(
    connection: Connection,
    of: DayTable,
    before: datetime,
    guard: DropGuard | None = None,
    kept: KeptRows | None = None,
) -> int:
    dropped = await _finish_drops(connection, of, before, guard, kept)
    for name in await _attached(connection, of):
        if of.end_of(name) >= before:
            continue
        if kept is not None and await kept.is_settled(connection, of.day_of(name)):
            continue
        if guard is not None and not await guard.may_detach(connection, of.day_of(name)):
            continue
        detach = f"alter table duetime.{of.table} detach partition duetime.{name} concurrently"
        if not await _try(connection, detach):
            break
        dropped += await _drop_detached(connection, of, name, guard, kept)
    return dropped


async def _drop_detached(
    connection: Connection, of: DayTable, name: str, guard: DropGuard | None, kept: KeptRows | None
) -> bool:
    day, start = of.day_of(name), of.end_of(name) - timedelta(days=1)
    keeps = [] if kept is None else await kept.keeps(connection, day)
    may = guard is None or await guard.may_drop(connection, day, partly=bool(keeps))
    # The guard may have counted the day again, and found more that is kept.
    if not may or (kept is not None and await kept.keeps(connection, day) != keeps):
        await _attach(connection, of, [start])
        return False
    if not keeps:
        return await _try(connection, f"drop table if exists duetime.{name}")
    try:
        async with connection.transaction():
            await connection.execute(_LOCK)
            if await connection.fetchval(_IS_ATTACHED, f"duetime.{name}"):
                return False  # another node has done it
            await keep_only(connection, day, f"duetime.{name}", keeps)
            bounds = {"start": of.bound(start), "end": of.bound(start + timedelta(days=1))}
            await connection.execute(_ATTACH.format(table=of.table, name=name, **bounds), timeout=_LOCK_TIMEOUT)
    except _RETRY_LATER as error:
        log.info("a later round keeps rows of %s (%s)", name, reason_of(error))
        return False
    return True


async def _try(connection: Connection, statement: str) -> bool:
    """Run a statement that may wait for readers, up to a timeout; False when it must be retried later."""
    try:
        await connection.execute(statement, timeout=_LOCK_TIMEOUT)
    except _RETRY_LATER as error:
        log.info("a later round retries it (%s): %s", reason_of(error), statement)
        await connection.execute("select 1")  # waits until the cancelled statement has ended
        return False
    return True


async def _attach(connection: Connection, of: DayTable, days: list[datetime]) -> int:
    async with connection.transaction():
        await connection.execute(_LOCK)
        missing = await _missing(connection, of, days)
        for statement, timeout in ((_CREATE, None), (_ATTACH, _LOCK_TIMEOUT)):
            script = "".join(
                statement.format(
                    table=of.table, name=name, start=of.bound(start), end=of.bound(start + timedelta(days=1))
                )
                for name, start in missing.items()
            )
            await connection.execute(script or "select 1", timeout=timeout)
    return len(missing)


async def _missing(connection: Connection, of: DayTable, days: list[datetime]) -> dict[str, datetime]:
    """The days without a partition, by the partition's name."""
    present = set(await _attached(connection, of))
    missing = {name: day for day in days if (name := of.name(day)) not in present}
    if missing and of is SPENT:
        first = await connection.fetchval(SQL["spent_from"], SPENT_FROM)
        missing = {name: day for name, day in missing.items() if first is None or day.date().isoformat() >= first}
    return missing


async def _finish_drops(
    connection: Connection, of: DayTable, before: datetime, guard: DropGuard | None, kept: KeptRows | None
) -> int:
    """Finish interrupted drops of this process or of one that died; returns how many.

    A younger partition that is not attached was detached by an operator, and stays.
    """
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = $1::text::regclass and i.inhdetachpending",
        f"duetime.{of.table}",
    )
    for row in rows:
        await _try(connection, f"alter table duetime.{of.table} detach partition duetime.{row[0]} finalize")
    leftovers = await connection.fetch(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'duetime' and c.relkind = 'r' and c.relname ~ $1 and not c.relispartition",
        of.pattern,
    )
    old = [row[0] for row in leftovers if of.end_of(row[0]) < before]
    return sum([await _drop_detached(connection, of, name, guard, kept) for name in old])


async def _attached(connection: Connection, of: DayTable) -> list[str]:
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = $1::text::regclass and not i.inhdetachpending and c.relname ~ $2 order by 1",
        f"duetime.{of.table}",
        of.pattern,
    )
    return [row[0] for row in rows]
