"""Pruning: history is dropped by whole days."""

from collections.abc import Mapping
from datetime import datetime

from duetime.store.postgres.archived_days import ArchivedDays
from duetime.store.postgres.partitions import drop_older, keep_room_ahead, oldest_day
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.thinning import Thinning
from duetime.store.postgres.usage_counts import CountedDays
from duetime.store.shared.archives import USED
from duetime.store.shared.pruning import Pruning


class PruningRole(Role, Pruning):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._thinning = Thinning(context.database)

    async def _prune_history(self, past: datetime, now: datetime, batch: int, own: Mapping[int, datetime]) -> int:
        await keep_room_ahead(self.database)
        archived = await self.transactions.value("read_meta", name=USED) == "on"
        guard = CountedDays(now, ArchivedDays(now) if archived else None)
        removed = await drop_older(self.database, min([past, *own.values()]), now, guard)
        return removed + await self._thinning.thin(past, now, own, guard)

    async def retentions_of_jobs(self) -> dict[int, list[int]]:
        return {row["day"]: row["keeps"] for row in await self.database.fetch("retentions_of_jobs")}

    async def oldest_history(self) -> datetime | None:
        async with self.database.connection() as connection:
            return await oldest_day(connection)

    async def _wake_used_lanes(self) -> int:
        woken: int = await self.database.fetchval("wake_used_lanes")
        return woken
