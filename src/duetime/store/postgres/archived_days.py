"""Which days of history may be dropped, where it is archived first.

A day is detached only if it is released: its files were compared. It is dropped only if it then has as many rows as
were archived, because rows may have been added since.
"""

import logging
from datetime import datetime

from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.partitions import table_of

log = logging.getLogger("duetime.store")

_COUNT_TIMEOUT = 600.0


class ArchivedDays:
    def __init__(self, now: datetime) -> None:
        self._now = now

    async def may_detach(self, connection: Connection, day: int) -> bool:
        # From now on reads look into the files.
        return await connection.fetchval(SQL["leave_day_to_files"], day, self._now) is not None

    async def may_drop(self, connection: Connection, day: int, *, partly: bool = False) -> bool:
        rows = await connection.fetchval(f"select count(*) from {table_of(day)}", timeout=_COUNT_TIMEOUT)
        if await connection.fetchval(SQL["note_dropped_day"], day, self._now, rows, partly) is not None:
            return True
        log.error("%s has %d rows, but another number was archived: it is not removed", table_of(day), rows)
        problem = f"the database had {rows} rows when it was to be removed"
        await connection.execute(SQL["archive_day_again"], day, problem)
        return False
