"""The recomputer updates cursors when the rules behind them change. It runs on every node, in small steps that block no
other work.

When a node starts with a different time zone database than the cursors were computed with, it recomputes the cursors of
all jobs with a time zone. It does so once per start, so two nodes with different databases do not overwrite each other
forever. Every node reports its database version. When the last node with another version is gone, the cursors that it
has fired meanwhile are checked once more. After that, the recomputer only looks for calendars whose change was
interrupted.
"""

import asyncio
import logging
from datetime import timedelta

from duetime.errors import reason_of
from duetime.model.schedule.zone_database import zone_database
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.recomputer")

BATCH = 500


class Recomputer:
    def __init__(
        self, store: Store, *, database: str | None = None, interval: timedelta = timedelta(seconds=30)
    ) -> None:
        self._store = store
        self._database = database
        self._interval = interval.total_seconds()
        self._seen = 0
        self._starting = True
        self._checking = False
        self._at_rest = True

    async def tick(self) -> float:
        try:
            if self._at_rest and not self._checking:
                await self._report()
            if self._checking:
                return await self._check()
            self._at_rest = not await self._store.recompute.recompute_calendars(BATCH)
            return self._interval if self._at_rest else 0.05
        except (OSError, MemoryError) as error:  # temporary, and only on this node: other nodes go on
            log.warning("this node cannot read its time zone database: %s; retrying", reason_of(error))
            return self._interval

    async def _report(self) -> None:
        if self._database is None:
            self._database = await asyncio.to_thread(zone_database)
        self._checking = await self._store.recompute.report_zones(self._database, starting=self._starting)
        self._starting, self._seen = False, 0

    async def _check(self) -> float:
        assert self._database is not None
        seen = await self._store.recompute.recompute_zones(self._database, BATCH)
        self._seen += seen
        if seen:
            return 0.05
        self._checking = self._at_rest = False
        if self._seen:
            log.info("checked the cursors of %d jobs against this time zone database", self._seen)
        return 0.0
