"""Retrying statements that need a strong lock on a table.

All later statements on a table queue behind a waiting strong lock. So each try is short, other statements run in
between, and the log names the sessions that hold the table.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

import asyncpg

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.errors import StoreUnavailable
from duetime.store.postgres.database import Database

log = logging.getLogger("duetime.store")

T = TypeVar("T")

LOCK_WAIT = 60.0
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 5.0
_HELD = (
    asyncpg.LockNotAvailableError,
    asyncpg.DeadlockDetectedError,
    asyncpg.QueryCanceledError,
    TimeoutError,
)
_HOLDERS = """
select a.pid, coalesce(nullif(a.application_name, ''), 'no name'), coalesce(a.state, 'unknown'),
    clock_timestamp() - a.xact_start, string_agg(distinct c.relname, ', ')
from pg_locks l
join pg_class c on c.oid = l.relation and c.relnamespace = 'duetime'::regnamespace and c.relkind in ('r', 'p')
join pg_stat_activity a on a.pid = l.pid
where l.granted and l.pid <> pg_backend_pid()
    and l.database = (select oid from pg_database where datname = current_database())
group by a.pid, 2, 3, a.xact_start order by a.xact_start limit 3"""


async def with_lock_wait(database: Database, what: str, work: Callable[[], Awaitable[T]]) -> T:
    """Try for up to a minute; then raise `StoreUnavailable`, which names the sessions that hold the tables."""
    until = monotonic() + LOCK_WAIT
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, _HELD):
                raise
            holders = await _holders(database)
            if monotonic() + pause > until:
                raise StoreUnavailable(
                    f"{what} did not get its locks within {LOCK_WAIT:g} s: {holders}",
                    remedy="end these sessions, or try again later",
                ) from error
            log.warning("%s waits for locks: %s", what, holders)
        await asyncio.sleep(pause)
        pause = min(_LONGEST_PAUSE, pause * 2)


async def _holders(database: Database) -> str:
    """The sessions that hold duetime's tables, the oldest transaction first."""
    async with database.connection() as connection:
        rows = await connection.fetch(_HOLDERS)
    if not rows:
        return "the locks were released in the meantime"
    return "; ".join(
        f"process {pid} ({name}, {state}{'' if age is None else f', for {format_duration(age)}'}) holds {tables}"
        for pid, name, state, age, tables in rows
    )
