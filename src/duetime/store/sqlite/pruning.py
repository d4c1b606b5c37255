"""Pruning: history is removed row by row."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from math import ceil

from msgspec.json import encode

from duetime.store.shared.archives import MICROSECONDS_A_DAY, USED
from duetime.store.shared.pruning import Pruning
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.usage_counts import count_part
from duetime.store.sqlite.values import maybe_moment, stamp


class PruningRole(Role, Pruning):
    _history_after = 0

    async def _wake_used_lanes(self) -> int:
        return await self.database.run(self.lane_book.wake_used)

    async def oldest_history(self) -> datetime | None:
        found = await self.database.run(lambda connection, _: connection.value("oldest_history", {}))
        return maybe_moment(found)

    async def retentions_of_jobs(self) -> dict[int, list[int]]:
        rows = await self.database.run(lambda connection, _: connection.rows("retentions_of_jobs", {}))
        found: dict[int, list[int]] = {}
        for day, seconds in rows:
            if seconds is not None:
                found.setdefault(day, []).append(ceil(seconds / 86_400))
        return found

    async def _prune_history(self, past: datetime, now: datetime, batch: int, own: Mapping[int, datetime]) -> int:
        """The oldest rows come first, except for rows that were written while the clock was ahead: those are
        skipped. Where history is archived, whole days go."""
        trusted = now
        archived = await self.transactions.value("read_meta", name=USED) == "on"
        whole = MICROSECONDS_A_DAY if archived else 1
        before = stamp(past) // whole * whole
        tenants = {str(tenant): stamp(until) // whole * whole for tenant, until in own.items()}
        latest = max([before, *tenants.values()])
        yesterday = stamp(now - timedelta(days=1)) // MICROSECONDS_A_DAY
        while await self.database.run(count_part):
            pass

        def work(connection: Connection, now: int) -> int:
            after = self._history_after
            rows = connection.rows("history_in_turn", {"after": after, "batch": batch})
            is_over = len(rows) < batch or any(latest <= finished_at <= now for _, finished_at in rows)
            self._history_after = 0 if is_over else rows[-1][0]
            until = rows[-1][0] if rows else after
            kept = bool(connection.value("has_kept", {}))
            if archived:
                day = latest // MICROSECONDS_A_DAY
                connection.execute("note_removed_history", {"day": max(day, yesterday) if kept else day, "now": now})
            bounds = {"after": after, "until": until, "before": before, "own": encode(tenants).decode()}
            removed = connection.execute(
                "prune_history", {**bounds, "has_kept": kept, "archived": archived, "now": now}
            )
            if kept:
                part = {"whole": whole, "batch": batch, "archived": archived}
                removed += connection.execute("prune_kept", {**part, "now": stamp(trusted)})
            connection.execute("lower_usage_place", {})
            return removed

        return await self.database.run(work)
