"""Pruning: history goes by the day, whole; the rest in small steps.

What belongs to a job that may live in any home (its labels, its payloads) is gone through from old to young, a part
at a time and round and round, and removed where the job is nowhere any more.
"""

from datetime import datetime, timedelta
from typing import Any

from duetime.ids import first_id_at
from duetime.store.postgres.database import SQL
from duetime.store.postgres.partitions import drop_older, keep_room_ahead
from duetime.store.postgres.role import Role
from duetime.store.service_views import FIRST_ID, PARTS_OF_KEYS

_EVENTS = timedelta(minutes=10)
_LIVE_LOGS = timedelta(minutes=1)
_A_PARTITION = timedelta(days=2)


class PruningRole(Role):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._swept = dict.fromkeys(("sweep_labels", "sweep_payloads", "sweep_edges"), FIRST_ID)
        self._refs_after = (FIRST_ID, FIRST_ID)
        self._keys_after: datetime | None = None

    async def prune(
        self,
        retention: timedelta,
        dead_letter_retention: timedelta,
        batch: int = 1000,
        *,
        idempotency_retention: timedelta = timedelta(days=1),
    ) -> int:
        await keep_room_ahead(self.database)
        removed = await drop_older(
            self.database, retention
        )  # what there is most of, before anything that may take long
        removed += await self.database.execute("prune_jobs", retention, batch)
        await self.database.execute("prune_users", batch)
        removed += await self.database.execute("prune_graphs", retention, batch)
        await self.database.execute("prune_followers")
        removed += await self.database.execute("prune_dead_letters", dead_letter_retention, batch)
        removed += await self._prune_keys(idempotency_retention, batch)
        removed += await self.database.execute("prune_events", _EVENTS, batch)
        await self.database.execute("prune_live_logs", _LIVE_LOGS, batch)
        await self.database.execute("see_tasks", retention / 2)
        removed += await self.database.execute("prune_tasks", retention, batch)
        removed += await self.database.execute("prune_limits", batch)
        longest = max(retention, dead_letter_retention) + _A_PARTITION
        removed += await self.database.execute("prune_deleted_jobs", longest, batch)
        removed += await self._sweep_refs(retention, batch)
        for name in self._swept:
            removed += await self._sweep(name, retention, batch)
        return removed

    async def _prune_keys(self, age: timedelta, batch: int) -> int:
        """A few parts in turn. Keys that live long stay in front: passing by all of them would take ever longer."""
        removed = 0
        for _ in range(PARTS_OF_KEYS):
            row = await self.database.fetchrow("prune_keys", age, batch, self._keys_after)
            assert row is not None
            self._keys_after, gone = row
            removed += gone
            if self._keys_after is None:
                break
        return removed

    async def _sweep_refs(self, retention: timedelta, batch: int) -> int:
        async with self.database.connection() as connection:
            before = first_id_at(await connection.fetchval(SQL["clock"]) - retention)
            row = await connection.fetchrow(SQL["sweep_payload_refs"], *self._refs_after, before, batch)
        assert row is not None
        seen, payload_id, job_id, removed = row
        self._refs_after = (FIRST_ID, FIRST_ID) if seen < batch else (payload_id, job_id)
        return int(removed)

    async def _sweep(self, name: str, retention: timedelta, batch: int) -> int:
        async with self.database.connection() as connection:
            before = first_id_at(await connection.fetchval(SQL["clock"]) - retention)
            row = await connection.fetchrow(SQL[name], self._swept[name], before, batch)
        assert row is not None
        seen, last, removed = row
        self._swept[name] = FIRST_ID if seen < batch else last
        return int(removed)
