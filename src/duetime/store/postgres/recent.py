"""The runs that ended lately, from the newest blocks of history."""

from datetime import UTC, datetime, timedelta
from typing import Any

from duetime.model.demand import Activity
from duetime.model.overview import Recent
from duetime.store.postgres.database import off
from duetime.store.postgres.role import Role
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.shared.demand import DemandRole, activity, running_now
from duetime.store.shared.figure_rows import recent
from duetime.store.shared.trends import Ended, TrendRole

_BLOCKS = 1000
"""How many blocks of history are read: 8 MB, some ten thousand attempts."""
_DAY = timedelta(days=1)
_NONE = -1
# Only a scan by block number reads just the end of a large table. The planner must choose it even for a day that was
# empty when the statement was planned. A nested loop would then walk over all lanes for each lane that it looks up.
_BY_BLOCK = off(
    "enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_seqscan", "enable_nestloop", "jit"
)


class RecentRole(Role):
    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        async with self.database.transaction(readonly=True) as connection:
            transaction = PostgresTransaction(connection)
            until = await connection.fetchval("select duetime.now()")
            since = until - window
            blocks = await _newest_blocks(transaction, since, until)
            await connection.execute(_BY_BLOCK)
            rows = await transaction.rows(
                "recent_attempts", tenant_id=tenant_id, since=since, step=step.total_seconds(), **blocks
            )
        seen, cut = since, _cut(blocks)
        for row in rows:
            if row["kind"] == "seen" and row["number"] == cut:
                seen = max(seen, since + timedelta(seconds=row["value"]))
        return recent(rows, since, until, step, seen)


class PostgresDemandRole(DemandRole, Role):
    async def activity(self, window: timedelta) -> Activity:
        async with self.database.transaction(readonly=True) as connection:
            transaction = PostgresTransaction(connection)
            now = await connection.fetchval("select duetime.now()")
            since = now - window
            blocks = await _newest_blocks(transaction, since, now)
            running = await running_now(transaction, since)
            await connection.execute(_BY_BLOCK)
            ended = await transaction.rows("activity", since=since, cut=_cut(blocks), **blocks)
        return activity(now, since, ended, running)


class PostgresTrendRole(TrendRole, Role):
    async def _ended(self, since: datetime, until: datetime) -> Ended:
        async with self.database.transaction(readonly=True) as connection:
            transaction = PostgresTransaction(connection)
            blocks = await _newest_blocks(transaction, since, await connection.fetchval("select duetime.now()"))
            await connection.execute(_BY_BLOCK)
            rows = await transaction.rows("pace", since=since, until=until, **blocks)
        cut = _cut(blocks)
        seen = [row["at"] for row in rows if row["kind"] == "seen" and row["number"] == cut]
        return Ended([row for row in rows if row["kind"] != "seen"], max([since, *seen]))


async def _newest_blocks(transaction: PostgresTransaction, since: datetime, now: datetime) -> dict[str, Any]:
    """Where the newest blocks of up to two days are, as parameters of the statements that read them."""
    today = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    days = [today, today - _DAY]
    names = [f"duetime.history_{day:%Y%m%d}" for day in days]
    lengths = [row["blocks"] for row in await transaction.rows("blocks_of_day", names=names)]
    first = [max(0, length - _BLOCKS) for length in lengths]
    if first[0] or since >= today:
        days[1], first[1] = today, 0  # an empty range: today's blocks are enough
    return {
        "today": today,
        "tomorrow": today + _DAY,
        "first_block": first[0],
        "day": days[1],
        "midnight": today,
        "first_block_of_day": first[1],
    }


def _cut(blocks: dict[str, Any]) -> int:
    """Which of the days is not read from its begin: 0 today, 1 the day before."""
    return 0 if blocks["first_block"] else 1 if blocks["first_block_of_day"] else _NONE
