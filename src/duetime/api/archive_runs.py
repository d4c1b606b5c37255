"""Archiving on request: one at a time, in the background, because a day may take minutes."""

import asyncio
import logging

from duetime.archive.archive import Archive
from duetime.errors import reason_of
from duetime.process.ending import end_tasks
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.archive")


class ArchiveRuns:
    def __init__(self, store: Store, archive: Archive) -> None:
        self._store = store
        self._archive = archive
        self._task: asyncio.Task[None] | None = None
        self.rows = 0
        self.problem: str | None = None

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> bool:
        """Archive all days that are due; False if that is going on."""
        if self.running:
            return False
        self.rows, self.problem = 0, None
        self._task = asyncio.create_task(self._run(), name="duetime archive run")
        return True

    async def close(self) -> None:
        await end_tasks([self._task])

    async def _run(self) -> None:
        try:
            await self._store.archives.use_archive(used=True)
            now = await self._store.now()
            for day in await self._archive.days_to_write(now):
                await self._archive.write_day(day, now, self._count)
        except Exception as error:
            log.error("the archive run ended: %s", reason_of(error))
            self.problem = reason_of(error)

    def _count(self, rows: int) -> None:
        self.rows += rows
