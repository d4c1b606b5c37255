"""Figures: counts up to a cap, the newest blocks of history, the first cursors of each stretch of time."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from uuid import UUID

from duetime.model.figures import Ahead, Count, Recent, Standing
from duetime.model.firing import LOOK_AHEAD
from duetime.model.listing import RunEnd
from duetime.store.figure_views import CAP, Looking, count_to, recent, waiting
from duetime.store.list_views import run_end
from duetime.store.postgres.database import SQL, off
from duetime.store.postgres.role import Role

_BLOCKS = 1000
"""How much of history is read: 8 MB, some ten thousands of attempts."""
_DAY = timedelta(days=1)
# A table is long, its end is short: nothing but the blocks themselves may be walked, in a day that was empty when the
# statement was planned too.
_BY_BLOCK = off("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_seqscan", "jit")
# The other way round: a stretch of time is some of the cursors, whatever is believed of them.
_BY_INDEX = off("enable_seqscan", "enable_bitmapscan", "jit")


class FigureRole(Role):
    async def recent(self, tenant_id: int, window: timedelta, step: timedelta) -> Recent:
        async with self.database.transaction(readonly=True) as connection:
            until: datetime = await connection.fetchval("select duetime.now()")
            since, today = until - window, until.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            days = [today, today - _DAY]
            names = [f"duetime.history_{day:%Y%m%d}" for day in days]
            blocks = [row["blocks"] for row in await connection.fetch(SQL["blocks_of_day"], names)]
            first = [max(0, length - _BLOCKS) for length in blocks]
            if first[0] or since >= today:
                days[1], first[1] = today, 0  # an empty stretch: today's blocks are enough
            await connection.execute(_BY_BLOCK)
            rows = await connection.fetch(
                SQL["recent_attempts"],
                *(tenant_id, since, step.total_seconds()),
                *(today, today + _DAY, first[0]),
                *(days[1], today, first[1]),
            )
        seen = since
        for row in rows:
            if row["kind"] == "seen" and first[row["number"]]:
                seen = max(seen, since + timedelta(seconds=row["value"]))
        return recent((tuple(row) for row in rows), since, until, step, seen)

    async def standing(self, tenant_id: int) -> Standing:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            row = await connection.fetchrow(SQL["standing"], tenant_id, CAP)
            lanes = await connection.fetch(SQL["waiting_lanes"], tenant_id)
        assert row is not None
        jobs = count_to(row["jobs"], CAP)
        if jobs.kind != "exact":
            plan = json.loads(await self.database.fetchval("estimate_jobs", tenant_id))
            jobs = Count(max(CAP, plan[0]["Plan"]["Plan Rows"]), "estimate")
        running, dead = count_to(row["running"], CAP), count_to(row["dead_letters"], CAP)
        return Standing(jobs, running, dead, waiting((each["task"], each["queue"], each["ready_at"]) for each in lanes))

    async def ahead(self, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
        looking = Looking(steps)
        starts = [start + step * number - (LOOK_AHEAD if number == 0 else timedelta()) for number in range(steps)]
        ends = [start + step * (number + 1) for number in range(steps)]
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            for row in await connection.fetch(SQL["upcoming_runs"], tenant_id, start, ends[-1], looking.each):
                looking.made(row["ready_at"], row["queue"])
        async with self.database.transaction(readonly=True) as connection:
            await connection.execute(_BY_INDEX)
            rows = await connection.fetch(SQL["upcoming_cursors"], tenant_id, starts, ends, looking.each)
            for number, found in groupby(rows, key=lambda row: row["stretch"]):
                if looking.saw(number, list(found)) and looking.left > 0:
                    cap = looking.left
                    there = await connection.fetchval(SQL["count_cursors"], starts[number], ends[number], cap)
                    looking.counted(number, there, cap)
        return looking.ahead()

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        found: dict[UUID, list[RunEnd]] = {job_id: [] for job_id in job_ids}
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            for row in await connection.fetch(SQL["recent_runs"], tenant_id, list(found), most):
                found[row["job_id"]].append(run_end(row))
        return found
