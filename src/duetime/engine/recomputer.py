"""The recomputer: cursors follow the rules behind them. It runs on every node, in steps that hold nobody up.

When a node starts with another time zone database than the cursors were computed with, it computes those of all jobs
that go by a zone anew; that is done once for each start, so two nodes with different databases do not fight over it.
Afterwards it only looks for calendars whose change was interrupted.
"""

import asyncio
import logging
from datetime import timedelta

from duetime.model.schedule.zone_database import zone_database
from duetime.store.protocol import Store

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
        self._zones_done = False

    async def tick(self) -> float:
        if not self._zones_done:
            return await self._zones()
        return 0.05 if await self._store.recompute_calendars(BATCH) else self._interval

    async def _zones(self) -> float:
        if self._database is None:
            self._database = await asyncio.to_thread(zone_database)
        seen = await self._store.recompute_zones(self._database, BATCH)
        self._seen += seen
        if seen:
            return 0.05
        self._zones_done = True
        if self._seen:
            log.info("checked the cursors of %d jobs against this time zone database", self._seen)
        return 0.0
