"""Pruning: in small steps, each a transaction of its own, so that nothing waits long behind it."""

from datetime import timedelta

from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import microseconds

_KEYS_AT_LEAST = timedelta(hours=24)
_EVENTS = timedelta(minutes=10)


class PruningRole(Role):
    async def prune(self, retention: timedelta, dead_letter_retention: timedelta, batch: int = 1000) -> int:
        removed = await self._prune("prune_jobs", retention, batch)
        removed += await self._prune("prune_dead_letters", dead_letter_retention, batch)
        removed += await self._prune("prune_keys", _KEYS_AT_LEAST, batch)
        removed += await self._prune("prune_events", _EVENTS, batch)
        return removed + await self._prune("prune_history", retention, batch)

    async def _prune(self, name: str, age: timedelta, batch: int) -> int:
        def work(connection: Connection, now: int) -> int:
            return connection.execute(name, {"now": now, "age": microseconds(age), "batch": batch})

        return await self.database.run(work)
