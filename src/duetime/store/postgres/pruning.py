"""Pruning: history is dropped by whole days."""

from datetime import datetime

from duetime.store.postgres.archived_days import ArchivedDays
from duetime.store.postgres.partitions import drop_older, keep_room_ahead
from duetime.store.postgres.role import Role
from duetime.store.shared.archives import USED
from duetime.store.shared.pruning import Pruning


class PruningRole(Role, Pruning):
    async def prune_history(self, past: datetime, now: datetime, batch: int) -> int:
        await keep_room_ahead(self.database)
        guard = ArchivedDays(now) if await self.transactions.value("read_meta", name=USED) == "on" else None
        return await drop_older(self.database, past, now, guard)

    async def wake_used_lanes(self) -> int:
        woken: int = await self.database.fetchval("wake_used_lanes")
        return woken
