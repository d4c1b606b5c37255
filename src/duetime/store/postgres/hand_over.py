"""Handing over: runs that a receiver executes after their worker handed them over."""

from collections import defaultdict
from uuid import UUID

from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import SQL, Connection, Row
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.role import Role
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import handed_over


class HandOverRole(Role):
    @retry_on_deadlock
    async def finish(self, run_id: UUID, fence: int, judge: JudgeLost) -> bool:
        async with self.database.transaction() as connection:
            rows = await connection.fetch(SQL["running_run"], run_id, fence)
            freed = await _judge(connection, rows, judge)
        await self.parking.free(freed)
        self.ready.announce(len(rows))
        return bool(rows)


async def reap_late(connection: Connection, limit: int, judge: JudgeLost, freed: set[int]) -> int:
    """End runs that receivers have not finished in time, or whose cancellation was requested."""
    rows = await connection.fetch(SQL["late_handovers"], limit)
    freed |= await _judge(connection, rows, judge)
    return len(rows)


async def _judge(connection: Connection, rows: list[Row], judge: JudgeLost) -> set[int]:
    """The limits that may have room after the commit."""
    freed: set[int] = set()
    by_worker: dict[UUID, list[Row]] = defaultdict(list)
    for row in rows:
        by_worker[row["worker_id"]].append(row)
    for worker_id, held in by_worker.items():
        freed |= (await apply(connection, worker_id, judge(handed_over(held)))).freed
    await connection.execute(SQL["forget_handovers"], [row["id"] for row in rows])
    return freed
