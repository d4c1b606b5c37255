"""Pruning: history is dropped by whole days, other rows are deleted in small steps.

Labels and payloads belong to a job that may be in any home. They are checked in batches from the oldest to the newest,
again and again, and removed when no home has the job any more.
"""

import logging
from datetime import datetime, timedelta

from duetime.ids import first_id_at
from duetime.store.postgres.archived_days import ArchivedDays
from duetime.store.postgres.partitions import drop_older, keep_room_ahead
from duetime.store.postgres.role import Context, Role
from duetime.store.shared.archives import USED
from duetime.store.shared.pruning import prune_bystanders
from duetime.store.shared.service_rows import EVENTS, FIRST_ID, KEYS_OF_LIMITS, PARTS_OF_KEYS, UNREAD_EVENTS

log = logging.getLogger("duetime.store")

_LIVE_LOGS = timedelta(minutes=1)
_A_PARTITION = timedelta(days=2)


class PruningRole(Role):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
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
        now: datetime | None = None,
    ) -> int:
        if now is None:
            now = await self.database.fetchval("clock")
        past = now - retention
        await keep_room_ahead(self.database)
        guard = ArchivedDays(now) if await self.transactions.value("read_meta", name=USED) == "on" else None
        removed = await drop_older(self.database, past, now, guard)  # the largest part, so it goes first
        removed += await self.database.execute("prune_jobs", past, batch)
        await self.database.execute("prune_users", batch)
        removed += await self.database.execute("prune_graphs", past, batch)
        await self.database.execute("prune_followers")
        removed += await self._prune_keys(now - idempotency_retention, past - _A_PARTITION, batch)
        removed += await self._prune_events(now, batch)
        await self.database.execute("prune_live_logs", now - _LIVE_LOGS, batch)
        await self.database.execute("see_tasks", now - retention / 2)
        removed += await self.database.execute("prune_tasks", past, batch)
        removed += await self.database.execute("prune_limits", batch, now - KEYS_OF_LIMITS)
        removed += await self.database.execute("prune_breakers", batch, now - KEYS_OF_LIMITS)
        removed += await self.database.execute("prune_buckets", now, batch)
        longest = max(retention, dead_letter_retention) + _A_PARTITION
        bounds = {"dead_letters": now - dead_letter_retention, "deleted_jobs": now - longest}
        removed += await prune_bystanders(self.transactions, now, **bounds, batch=batch)
        removed += await self.database.execute("prune_lanes", now - longest, batch)
        if woken := await self.database.fetchval("wake_used_lanes"):
            log.error("%d lanes with runs were asleep; they are awake now", woken)
        removed += await self._sweep_refs(past, batch)
        for name in self._swept:
            removed += await self._sweep(name, past, batch)
        return removed

    async def _prune_events(self, now: datetime, batch: int) -> int:
        # The age of an event counts from when it became visible, because a long transaction may have written it.
        await self.database.fetchval("last_mark")
        return await self.database.execute("prune_events", now - EVENTS, now - UNREAD_EVENTS, batch)

    async def _prune_keys(self, before: datetime, repeats_before: datetime, batch: int) -> int:
        """A few parts per call: keys that stay long are at the front, and to walk all of them would take too long."""
        removed = 0
        for _ in range(PARTS_OF_KEYS):
            row = await self.database.fetchrow("prune_keys", before, batch, self._keys_after, repeats_before)
            assert row is not None
            self._keys_after, gone = row
            removed += gone
            if self._keys_after is None:
                break
        return removed

    async def _sweep_refs(self, past: datetime, batch: int) -> int:
        row = await self.database.fetchrow("sweep_payload_refs", *self._refs_after, first_id_at(past), batch)
        assert row is not None
        seen, payload_id, job_id, removed = row
        self._refs_after = (FIRST_ID, FIRST_ID) if seen < batch else (payload_id, job_id)
        return int(removed)

    async def _sweep(self, name: str, past: datetime, batch: int) -> int:
        row = await self.database.fetchrow(name, self._swept[name], first_id_at(past), batch)
        assert row is not None
        seen, last, removed = row
        self._swept[name] = FIRST_ID if seen < batch else last
        return int(removed)
