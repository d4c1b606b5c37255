"""Pruning: history goes by the day, whole; the rest in small steps."""

from datetime import timedelta

from duetime.store.postgres.partitions import drop_older, keep_room_ahead
from duetime.store.postgres.role import Role

_KEYS_AT_LEAST = timedelta(hours=24)


class PruningRole(Role):
    async def prune(self, retention: timedelta, dead_letter_retention: timedelta, batch: int = 1000) -> int:
        await keep_room_ahead(self.database)
        removed = await self.database.execute("prune_jobs", retention, batch)
        await self.database.execute("prune_users", batch)
        removed += await self.database.execute("prune_dead_letters", dead_letter_retention, batch)
        removed += await self.database.execute("prune_keys", _KEYS_AT_LEAST, batch)
        return removed + await drop_older(self.database, retention)
