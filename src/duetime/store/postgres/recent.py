"""The runs that ended lately, from the newest blocks of history."""

from datetime import UTC, timedelta

from duetime.model.overview import Recent
from duetime.store.postgres.database import off
from duetime.store.postgres.role import Role
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.shared.figure_rows import recent

_BLOCKS = 1000
"""How many blocks of history are read: 8 MB, some ten thousand attempts."""
_DAY = timedelta(days=1)
# Only a scan by block number reads just the end of a large table. The planner must choose it even for a day that was
# empty when the statement was planned.
_BY_BLOCK = off("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_seqscan", "jit")


class RecentRole(Role):
    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        async with self.database.transaction(readonly=True) as connection:
            transaction = PostgresTransaction(connection)
            until = await connection.fetchval("select duetime.now()")
            since, today = until - window, until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            days = [today, today - _DAY]
            names = [f"duetime.history_{day:%Y%m%d}" for day in days]
            blocks = [row["blocks"] for row in await transaction.rows("blocks_of_day", names=names)]
            first = [max(0, length - _BLOCKS) for length in blocks]
            if first[0] or since >= today:
                days[1], first[1] = today, 0  # an empty range: today's blocks are enough
            await connection.execute(_BY_BLOCK)
            rows = await transaction.rows(
                "recent_attempts",
                tenant_id=tenant_id,
                since=since,
                step=step.total_seconds(),
                today=today,
                tomorrow=today + _DAY,
                first_block=first[0],
                day=days[1],
                midnight=today,
                first_block_of_day=first[1],
            )
        seen = since
        for row in rows:
            if row["kind"] == "seen" and first[row["number"]]:
                seen = max(seen, since + timedelta(seconds=row["value"]))
        return recent(rows, since, until, step, seen)
