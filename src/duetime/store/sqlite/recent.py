"""The runs that ended lately, from the newest rows of history."""

from datetime import datetime, timedelta

from duetime.model.demand import Activity
from duetime.model.overview import Recent
from duetime.store.shared.demand import DemandRole, activity, running_now
from duetime.store.shared.figure_rows import recent
from duetime.store.shared.transaction import Transaction
from duetime.store.shared.trends import Ended, TrendRole
from duetime.store.sqlite.role import Role

_ROWS = 20_000
"""How many rows of history are read."""


class RecentRole(Role):
    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        async def work(transaction: Transaction) -> Recent:
            until = await transaction.now()
            seen = since = until - window
            wanted = {"tenant_id": tenant_id, "most": _ROWS, "since": since, "step": step}
            rows = await transaction.rows("recent_attempts", **wanted)
            for row in rows:
                if row["kind"] == "seen" and row["number"] >= _ROWS:
                    seen = max(seen, since + timedelta(seconds=row["value"]))
            return recent(rows, since, until, step, seen)

        return await self.transactions.run(work)


class SqliteDemandRole(DemandRole, Role):
    async def activity(self, window: timedelta) -> Activity:
        async def work(transaction: Transaction) -> Activity:
            now = await transaction.now()
            since = now - window
            ended = await transaction.rows("activity", since=since, most=_ROWS)
            return activity(now, since, ended, await running_now(transaction, since))

        return await self.transactions.run(work)


class SqliteTrendRole(TrendRole, Role):
    async def _ended(self, since: datetime, until: datetime) -> Ended:
        rows = await self.transactions.rows("pace", since=since, until=until, most=_ROWS)
        seen = [row["at"] for row in rows if row["kind"] == "seen" and row["number"] >= _ROWS]
        return Ended([row for row in rows if row["kind"] != "seen"], max([since, *seen]))
