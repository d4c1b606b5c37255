"""Parked runs: they return to their lanes when the limit that they wait for has room.

A completion first ends its runs, and then unparks others without waiting for any limit's lock. It skips a limit that
another transaction holds: that transaction may have counted before the completion committed, and may be parking another
run right now. So this process retries until it has held the limit once. If the process ends before that, the scanners
find its parked runs: `sweep` starts from the parked runs themselves.
"""

import asyncio
import logging
from collections.abc import Collection

from duetime.clock import monotonic
from duetime.errors import StoreError, reason_of
from duetime.process.ending import end_tasks
from duetime.store.postgres.database import Database
from duetime.store.shared.ready import Ready

log = logging.getLogger("duetime.store")

_FIRST_PAUSE = 0.002
_LONGEST_PAUSE = 0.5
_CHEAP_SWEEP = 0.05
_SWEEP_SHARE = 0.1
"""A sweep that takes longer than `_CHEAP_SWEEP` seconds runs less often: at most this share of the time."""


class ParkedRuns:
    def __init__(self, database: Database, ready: Ready) -> None:
        self._database = database
        self._ready = ready
        self._busy: set[int] = set()
        self._task: asyncio.Task[None] | None = None
        self._sweep_at = 0.0

    async def free(self, limit_ids: Collection[int]) -> None:
        """Unpark runs that these limits have room for: now if the limit is not locked, else soon. It never fails,
        because the change that made room is committed."""
        if not limit_ids:
            return
        try:
            self.free_later(await self._unpark(limit_ids))
        except StoreError:
            self.free_later(limit_ids)

    def free_later(self, limit_ids: Collection[int]) -> None:
        """The same for limits that were locked a moment ago."""
        if limit_ids:
            self._busy.update(limit_ids)
            if self._task is None or self._task.done():
                self._task = asyncio.create_task(self._retry(), name="duetime parked runs: retry")

    async def sweep(self, most: int) -> int:
        """Unpark runs that no process has unparked; returns how many."""
        began = monotonic()
        if began < self._sweep_at:
            return 0
        limit_ids = [row[0] for row in await self._database.fetch("parked_limits", most)]
        given = (await self._unpark_all(limit_ids))[0] if limit_ids else 0
        took = monotonic() - began
        if took > _CHEAP_SWEEP:
            self._sweep_at = monotonic() + took / _SWEEP_SHARE
        return given

    async def close(self) -> None:
        task, self._task = self._task, None
        self._busy.clear()
        await end_tasks([task])

    async def _retry(self) -> None:
        pause = _FIRST_PAUSE
        while self._busy:
            await asyncio.sleep(pause)
            limit_ids, self._busy = self._busy, set()
            try:
                left = await self._unpark(limit_ids)
            except StoreError as error:
                log.debug("retrying %d limits: %s", len(limit_ids), reason_of(error))
                left = limit_ids
            self._busy.update(left)
            pause = _FIRST_PAUSE if len(left) < len(limit_ids) else min(_LONGEST_PAUSE, pause * 2)

    async def _unpark(self, limit_ids: Collection[int]) -> Collection[int]:
        """Returns the limits that were locked."""
        given, busy = await self._unpark_all(limit_ids)
        self._ready.announce(given)
        return busy

    async def _unpark_all(self, limit_ids: Collection[int]) -> tuple[int, Collection[int]]:
        row = await self._database.fetchrow("unpark", list(limit_ids))
        assert row is not None
        return row["given"], row["busy"] or ()
