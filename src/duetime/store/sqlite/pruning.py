"""Pruning in small steps, each in its own transaction, so that other callers do not wait long.

Labels and payloads belong to a job that may be in any home. They are checked in batches from the oldest to the newest,
again and again, and removed when no home has the job any more.
"""

import logging
from datetime import datetime, timedelta

from duetime.ids import first_id_at
from duetime.store.shared.archives import MICROSECONDS_A_DAY, USED
from duetime.store.shared.pruning import prune_bystanders
from duetime.store.shared.service_rows import EVENTS, FIRST_ID, KEYS_OF_LIMITS, PARTS_OF_KEYS, UNREAD_EVENTS
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.values import places, stamp

log = logging.getLogger("duetime.store")

_LIVE_LOGS = timedelta(minutes=1)
_A_PARTITION = timedelta(days=2)
_FIRST_REF = (FIRST_ID.bytes, FIRST_ID.bytes)


class PruningRole(Role):
    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._swept = dict.fromkeys(("labels", "payloads", "edges"), FIRST_ID.bytes)
        self._refs_after = _FIRST_REF
        self._keys_after = 0
        self._history_after = 0

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
            now = self.database.clock.now()
        past = now - retention
        removed = await self._prune("prune_jobs", past, batch)
        await self._prune("prune_users", past, batch)
        removed += await self._prune("prune_graphs", past, batch)
        await self._prune("prune_followers", past, batch)
        removed += await self._prune_keys(now - idempotency_retention, past - _A_PARTITION, batch)
        removed += await self._prune("prune_events", now - EVENTS, batch, unread=stamp(now - UNREAD_EVENTS))
        await self._prune("prune_live_logs", now - _LIVE_LOGS, batch)
        await self._prune("see_tasks", now - retention / 2, batch)
        removed += await self._prune("prune_tasks", past, batch)
        removed += await self._prune("prune_limits", now - KEYS_OF_LIMITS, batch)
        removed += await self._prune("prune_breakers", now - KEYS_OF_LIMITS, batch)
        removed += await self._prune("prune_buckets", now, batch)
        longest = max(retention, dead_letter_retention) + _A_PARTITION
        bounds = {"dead_letters": now - dead_letter_retention, "deleted_jobs": now - longest}
        removed += await prune_bystanders(self.transactions, now, **bounds, batch=batch)
        removed += await self._prune("prune_lanes", now - longest, batch)
        if woken := await self.database.run(self.lane_book.wake_used):
            log.error("%d lanes with runs were asleep; they are awake now", woken)
        removed += await self._sweep("labels", "labels_in_turn", "sweep_labels", past, batch)
        removed += await self._sweep_refs(past, batch)
        removed += await self._sweep("payloads", "payloads_in_turn", "sweep_payloads", past, batch)
        removed += await self._sweep("edges", "edges_in_turn", "sweep_edges", past, batch)
        return removed + await self._prune_history(past, batch)

    async def _prune(self, name: str, before: datetime, batch: int, **more: int) -> int:
        this = {"before": stamp(before), "batch": batch, **more}
        return await self.database.run(lambda connection, now: connection.execute(name, {**this, "now": now}))

    async def _sweep(self, what: str, in_turn: str, sweep: str, past: datetime, batch: int) -> int:
        before = first_id_at(past).bytes

        def work(connection: Connection, _now: int) -> int:
            rows = connection.rows(in_turn, {"after": self._swept[what], "before": before, "batch": batch})
            self._swept[what] = rows[-1][0] if len(rows) >= batch else FIRST_ID.bytes
            ids = b"".join([row[0] for row in rows])
            return connection.execute(sweep, {"ids": ids, "places": places(ids)})

        return await self.database.run(work)

    async def _sweep_refs(self, past: datetime, batch: int) -> int:
        before = first_id_at(past).bytes

        def work(connection: Connection, _now: int) -> int:
            payload, job = self._refs_after
            wanted = {"payload": payload, "job": job, "before": before}
            rows = connection.rows("payload_refs_in_turn", {**wanted, "batch": batch})
            self._refs_after = rows[-1] if len(rows) >= batch else _FIRST_REF
            if not rows:
                return 0
            last_payload, last_job = rows[-1]
            part = {"payload": payload, "job": job, "last_payload": last_payload, "last_job": last_job}
            return connection.execute("sweep_payload_refs", part)

        return await self.database.run(work)

    async def _prune_keys(self, before: datetime, repeats_before: datetime, batch: int) -> int:
        """A few parts per call: keys that stay long are at the front, and to walk all of them would take too long."""

        def work(connection: Connection, _now: int) -> int:
            part = {"after": self._keys_after, "before": stamp(before)}
            until = connection.value("keys_in_turn", {**part, "batch": batch})
            self._keys_after = 0 if until is None else until
            bounds = {
                "until": part["before"] if until is None else until,
                "repeats_before": stamp(repeats_before),
            }
            return connection.execute("prune_keys", {**part, **bounds})

        removed = 0
        for _ in range(PARTS_OF_KEYS):
            removed += await self.database.run(work)
            if not self._keys_after:
                break
        return removed

    async def _prune_history(self, past: datetime, batch: int) -> int:
        """The oldest rows come first, except for rows that were written while the clock was ahead: those are
        skipped. Where history is archived, whole days go."""
        before = stamp(past)
        archived = await self.transactions.value("read_meta", name=USED) == "on"
        if archived:
            before -= before % MICROSECONDS_A_DAY

        def work(connection: Connection, now: int) -> int:
            after = self._history_after
            rows = connection.rows("history_in_turn", {"after": after, "batch": batch})
            is_over = len(rows) < batch or any(before <= finished_at <= now for _, finished_at in rows)
            self._history_after = 0 if is_over else rows[-1][0]
            until = rows[-1][0] if rows else after
            if archived:
                connection.execute("note_removed_history", {"day": before // MICROSECONDS_A_DAY, "now": now})
            bounds = {"after": after, "until": until, "before": before}
            return connection.execute("prune_history", {**bounds, "archived": archived, "now": now})

        return await self.database.run(work)
