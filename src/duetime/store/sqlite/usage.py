"""A tenant's usage of its quotas, counted in parts, because all callers share one connection."""

from typing import Any

from duetime.store.rules.caller_keys import IDEMPOTENCY, KEY, REPEAT
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role

_COUNTED_AT_ONCE = 5_000


class UsageRole(Role):
    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        wanted: dict[str, Any] = {"tenant_id": tenant_id}
        if kind == "graphs":
            wanted["most"] = most
            return int(await self.database.run(lambda connection, _: connection.value("count_graphs", wanted)))
        if kind == "idempotency_keys":
            parts = [
                await self._count("keys_to_count", "count_keys", {**wanted, "kind": each}, ("", None), most)
                for each in (IDEMPOTENCY, KEY, REPEAT)
            ]
            return min(most, sum(rows for rows, _ in parts))
        of_jobs = ("jobs_to_count", "count_jobs"), ("runs_to_count", "count_live_runs")
        ends = (FIRST_ID.bytes, LAST_ID.bytes)
        if kind == "stored_jobs":
            return min(most, sum([(await self._count(*names, wanted, ends, most))[0] for names in of_jobs]))
        assert kind == "stored_bytes"
        return sum([(await self._count(*names, wanted, ends, None))[1] for names in of_jobs])

    async def _count(
        self, part: str, count: str, wanted: dict[str, Any], ends: tuple[Any, Any], most: int | None
    ) -> tuple[int, int]:
        """Rows and bytes between two ends, in parts, so that no caller waits long for the connection."""
        after, end = ends
        rows = size = 0

        def work(connection: Connection, _now: int) -> tuple[Any, tuple[int, int]]:
            until = connection.value(part, {**wanted, "after": after, "batch": _COUNTED_AT_ONCE})
            found = connection.row(count, {**wanted, "after": after, "until": end if until is None else until})
            return until, found or (0, 0)

        while most is None or rows < most:
            after, found = await self.database.run(work)
            rows, size = rows + found[0], size + found[1]
            if after is None:
                break
        return rows, size
