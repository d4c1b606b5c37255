"""Pruning: history goes by the day, whole; the rest in small steps."""

from datetime import timedelta

from duetime.store.postgres.partitions import drop_older, keep_room_ahead
from duetime.store.postgres.role import Role

_KEYS_AT_LEAST = timedelta(hours=24)
_EVENTS = timedelta(minutes=10)


class PruningRole(Role):
    async def prune(self, retention: timedelta, dead_letter_retention: timedelta, batch: int = 1000) -> int:
        await keep_room_ahead(self.database)
        removed = await self.database.execute("prune_jobs", retention, batch)
        removed += await self.database.execute("prune_dead_letters", dead_letter_retention, batch)
        removed += await self.database.execute("prune_keys", _KEYS_AT_LEAST, batch)
        removed += await self.database.execute("prune_events", _EVENTS)
        return removed + await drop_older(self.database, retention)
