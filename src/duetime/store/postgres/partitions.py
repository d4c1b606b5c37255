"""The day partitions of history.

Partitions are attached at start and a week ahead, so that the next day's partition exists at midnight. ATTACH does not
wait for readers; CREATE … PARTITION OF would. A partition is detached concurrently before it is dropped: a DROP that
waits for one reader would block every completion. The statement's timeout bounds lock waits; the next round retries.
"""

import logging
import re
from datetime import UTC, datetime, timedelta

import asyncpg

from duetime.errors import reason_of
from duetime.store.postgres.database import Connection, Database

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
_NAME = re.compile(r"history_\d{8}")
_CREATE = "create table if not exists duetime.{name} (like duetime.history including all);"
_ATTACH = "alter table duetime.history attach partition duetime.{name} for values from ('{start}') to ('{end}');"


async def keep_room_ahead(database: Database) -> int:
    """Attach the partitions of yesterday, today and the week ahead; returns how many were missing."""
    async with database.connection() as connection:
        today: datetime = await connection.fetchval("select date_trunc('day', duetime.clock(), 'UTC')")
        days = [today + timedelta(days=offset) for offset in range(-1, AHEAD + 1)]
        return await _attach(connection, days) if await _missing(connection, days) else 0


async def drop_older(database: Database, past: datetime, now: datetime) -> int:
    """Detach and drop the partitions whose day ended before `past`; returns how many.

    Yesterday's partition always stays: it is needed if the clock steps back over midnight. A partition that a
    transaction reads stays until a later round.
    """
    dropped = 0
    before = min(past, now - timedelta(days=1))
    async with database.connection() as connection:
        dropped += await _finish_drops(connection, before)
        for name in await _attached(connection):
            if _NAME.fullmatch(name) is None or _end_of(name) >= before:
                continue
            detach = f"alter table duetime.history detach partition duetime.{name} concurrently"
            if not await _try(connection, detach):
                break
            dropped += await _try(connection, f"drop table if exists duetime.{name}")
    return dropped


async def _try(connection: Connection, statement: str) -> bool:
    """Run a statement that may wait for readers, up to a timeout; False when it must be retried later."""
    try:
        await connection.execute(statement, timeout=_LOCK_TIMEOUT)
    except _RETRY_LATER as error:
        log.info("a later round retries (%s): %s", reason_of(error), statement)
        await connection.execute("select 1")  # waits until the cancelled statement has ended
        return False
    return True


async def _attach(connection: Connection, days: list[datetime]) -> int:
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock(hashtextextended('duetime partitions', 0))")
        missing = await _missing(connection, days)
        for statement, timeout in ((_CREATE, None), (_ATTACH, _LOCK_TIMEOUT)):
            script = "".join(
                statement.format(name=name, start=start.isoformat(), end=(start + timedelta(days=1)).isoformat())
                for name, start in missing.items()
            )
            await connection.execute(script or "select 1", timeout=timeout)
    return len(missing)


async def _missing(connection: Connection, days: list[datetime]) -> dict[str, datetime]:
    """The days without a partition, by the partition's name."""
    present = set(await _attached(connection))
    return {name: day for day in days if (name := f"history_{day:%Y%m%d}") not in present}


async def _finish_drops(connection: Connection, before: datetime) -> int:
    """Finish interrupted drops of this process or of one that died; returns how many.

    A younger partition that is not attached was detached by an operator, and stays.
    """
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'duetime.history'::regclass and i.inhdetachpending"
    )
    for row in rows:
        await _try(connection, f"alter table duetime.history detach partition duetime.{row[0]} finalize")
    leftovers = await connection.fetch(
        "select c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace"
        " where n.nspname = 'duetime' and c.relkind = 'r' and c.relname ~ '^history_[0-9]{8}$' and not c.relispartition"
    )
    old = [row[0] for row in leftovers if _end_of(row[0]) < before]
    return sum([await _try(connection, f"drop table if exists duetime.{name}") for name in old])


def _end_of(name: str) -> datetime:
    """The end of a partition's day."""
    return datetime.strptime(name.removeprefix("history_"), "%Y%m%d").replace(tzinfo=UTC) + timedelta(days=1)


async def _attached(connection: Connection) -> list[str]:
    rows = await connection.fetch(
        "select c.relname from pg_inherits i join pg_class c on c.oid = i.inhrelid"
        " where i.inhparent = 'duetime.history'::regclass and not i.inhdetachpending order by 1"
    )
    return [row[0] for row in rows]
