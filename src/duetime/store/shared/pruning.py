"""Pruning in small steps, each in its own transaction, so that other callers do not wait long.

Labels, payloads and edges belong to a job that may be in any home. They are checked in batches from the oldest to the
newest, again and again, and removed when no home has the job any more.
"""

import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from duetime.ids import first_id_at
from duetime.model.trends import KEPT
from duetime.model.worker import PAST_WORKERS
from duetime.store.shared.service_rows import EVENTS, FIRST_ID, KEYS_OF_LIMITS, PARTS_OF_KEYS, UNREAD_EVENTS
from duetime.store.shared.streams import CHANGED_RECENTLY
from duetime.store.shared.transaction import SharedContext, SharedRole, Transaction

log = logging.getLogger("duetime.store")

_LIVE_LOGS = timedelta(minutes=1)
_A_PARTITION = timedelta(days=2)
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)


class Pruning(SharedRole, ABC):
    def __init__(self, context: SharedContext) -> None:
        super().__init__(context)
        self._swept = dict.fromkeys(("labels_in_turn", "payloads_in_turn", "edges_in_turn"), FIRST_ID)
        self._refs_after = (FIRST_ID, FIRST_ID)
        self._keys_after = _FIRST

    @abstractmethod
    async def _prune_history(self, past: datetime, now: datetime, batch: int, own: Mapping[int, datetime]) -> int:
        """Remove rows that ended before `past`, or before the time of their tenant in `own`; returns how many rows or
        partitions."""

    @abstractmethod
    async def retentions_of_jobs(self) -> dict[int, list[int]]: ...

    @abstractmethod
    async def oldest_history(self) -> datetime | None:
        """No row of history ended before this time."""

    @abstractmethod
    async def _wake_used_lanes(self) -> int:
        """Wake lanes that are asleep although they have runs; returns how many."""

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
            now = await self.transactions.run(lambda transaction: transaction.now())
        past = now - retention
        longest = max(retention, dead_letter_retention) + _A_PARTITION
        # The largest part, so it goes first.
        removed = await self._prune_history(past, now, batch, await self._own(now))
        # History may stay for longer: while it cannot be archived, where it was restored, or for some tenants.
        oldest = await self.oldest_history()
        unused = now - longest if oldest is None else min(now - longest, oldest - _A_PARTITION)
        removed += await self._prune("prune_jobs", past, batch)
        await self._prune("prune_users", past, batch)
        removed += await self._prune("prune_graphs", past, batch)
        await self._prune("prune_followers", past, batch)
        removed += await self._prune_keys(now - idempotency_retention, past - _A_PARTITION, batch)
        # The age of an event counts from when it became visible, because a long transaction may have written it.
        await self.transactions.value("last_mark")
        removed += await self._prune("prune_events", now - EVENTS, batch, unread=now - UNREAD_EVENTS)
        await self._prune("prune_live_logs", now - _LIVE_LOGS, batch)
        await self._prune("see_tasks", now - retention / 2, batch)
        removed += await self._prune("prune_tasks", past, batch)
        removed += await self._prune("prune_limits", now - KEYS_OF_LIMITS, batch)
        removed += await self._prune("prune_breakers", now - KEYS_OF_LIMITS, batch)
        removed += await self._prune("prune_buckets", now, batch)
        await self.transactions.execute("prune_streams", since=now - CHANGED_RECENTLY)
        removed += await self._prune("prune_sessions", now, batch)
        for step, kept in KEPT.items():
            wanted = {"step": int(step.total_seconds()), "before": now - kept, "batch": batch}
            removed += await self.transactions.execute("prune_trends", **wanted)
        await self._prune("prune_past_workers", now - PAST_WORKERS, batch)
        removed += await self._prune("prune_login_links", now, batch)
        removed += await self._prune("prune_dead_letters", now - dead_letter_retention, batch)
        removed += await self._prune("prune_deleted_jobs", unused, batch)
        removed += await self._prune("prune_lanes", unused, batch)
        if woken := await self._wake_used_lanes():
            log.error("woke %d lanes that were asleep although they have runs", woken)
        removed += await self._sweep("labels_in_turn", past, batch, "sweep_labels")
        removed += await self._sweep_refs(past, batch)
        removed += await self._sweep("payloads_in_turn", past, batch, "sweep_payloads")
        return removed + await self._sweep("edges_in_turn", past, batch, "sweep_dependents", "sweep_edges")

    async def _own(self, now: datetime) -> dict[int, datetime]:
        rows = await self.transactions.rows("own_history_days")
        return {row["tenant_id"]: now - timedelta(days=row["count"]) for row in rows}

    async def _prune(self, name: str, before: datetime, batch: int, **more: datetime) -> int:
        return await self.transactions.execute(name, before=before, batch=batch, **more)

    async def _sweep(self, in_turn: str, past: datetime, batch: int, *sweeps: str) -> int:
        part = {"after": self._swept[in_turn], "before": first_id_at(past), "batch": batch}

        async def work(transaction: Transaction) -> int:
            ids = [row["id"] for row in await transaction.rows(in_turn, **part)]
            self._swept[in_turn] = ids[-1] if len(ids) >= batch else FIRST_ID
            return sum([await transaction.execute(sweep, ids=ids) for sweep in sweeps]) if ids else 0

        return await self.transactions.run(work)

    async def _sweep_refs(self, past: datetime, batch: int) -> int:
        after = dict(zip(("payload_id", "job_id"), self._refs_after, strict=True))

        async def work(transaction: Transaction) -> int:
            rows = await transaction.rows("payload_refs_in_turn", **after, before=first_id_at(past), batch=batch)
            refs = [(row["payload_id"], row["job_id"]) for row in rows]
            self._refs_after = refs[-1] if len(refs) >= batch else (FIRST_ID, FIRST_ID)
            if not refs:
                return 0
            last_payload, last_job = refs[-1]
            return await transaction.execute(
                "sweep_payload_refs", **after, last_payload=last_payload, last_job=last_job
            )

        return await self.transactions.run(work)

    async def _prune_keys(self, before: datetime, repeats_before: datetime, batch: int) -> int:
        """A few parts per call: keys that stay long are at the front, and to walk all of them would take too long."""

        async def work(transaction: Transaction) -> int:
            part = {"after": self._keys_after, "before": before}
            until = await transaction.value("keys_in_turn", **part, batch=batch)
            self._keys_after = until or _FIRST
            return await transaction.execute("prune_keys", **part, until=until or before, repeats_before=repeats_before)

        removed = 0
        for _ in range(PARTS_OF_KEYS):
            removed += await self.transactions.run(work)
            if self._keys_after == _FIRST:
                break
        return removed
