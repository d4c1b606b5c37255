"""Handing over: runs that a receiver executes after their worker handed them over."""

from collections import defaultdict
from typing import Any
from uuid import UUID

from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import handed_over
from duetime.store.sqlite.completing import apply
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import packed, places


class HandOverRole(Role):
    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        def work(connection: Connection, now: int) -> int:
            wanted = {"run_id": run_id.bytes, "fence": fence, "now": now}
            return _judge(connection, now, connection.records("running_run", wanted), judge)

        found = await self.database.run(work)
        self.ready.announce(found)
        return bool(found)


def reap_late(connection: Connection, now: int, limit: int, judge: JudgeLost) -> int:
    """End runs that receivers have not finished in time, or whose cancellation was requested."""
    return _judge(connection, now, connection.records("late_handovers", {"now": now, "limit": limit}), judge)


def _judge(connection: Connection, now: int, rows: list[dict[str, Any]], judge: JudgeLost) -> int:
    by_worker: dict[UUID, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_worker[row["worker_id"]].append(row)
    for worker_id, held in by_worker.items():
        apply(connection, now, worker_id, judge(handed_over(held)))
    ids = packed(row["id"] for row in rows)
    connection.execute("forget_handovers", {"ids": ids, "places": places(ids)})
    return len(rows)
