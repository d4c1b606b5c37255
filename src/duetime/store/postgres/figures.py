"""Figures: counts up to a cap, the newest blocks of history, what a tenant's jobs have ahead of them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from uuid import UUID

from duetime.model.lists import RunEnd
from duetime.model.overview import Ahead, AheadPage, ComingJob, Count, Recent, Standing
from duetime.store.postgres.database import SQL, Connection, off
from duetime.store.postgres.role import Role
from duetime.store.shared.figure_rows import (
    CAP,
    COUNTED,
    LOOKED_AT,
    MOST_MADE,
    SAMPLED,
    ahead_page,
    coming_job,
    count_to,
    recent,
    sample_bound,
    waiting,
)
from duetime.store.shared.list_rows import run_end
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID

_BLOCKS = 1000
"""How much of history is read: 8 MB, some ten thousands of attempts."""
_DAY = timedelta(days=1)
# A table is long, its end is short: nothing but the blocks themselves may be walked, in a day that was empty when the
# statement was planned too.
_BY_BLOCK = off("enable_indexscan", "enable_indexonlyscan", "enable_bitmapscan", "enable_seqscan", "jit")
_AT_ONCE = 1000


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
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            now: datetime = await connection.fetchval(SQL["clock"])
            span = (max(now, start), start + step * steps)
            made = await connection.fetch(SQL["runs_ahead"], tenant_id, *span, start, step, MOST_MADE)
            ids = await self._ids(connection, tenant_id, LAST_ID, LOOKED_AT + 1)
            looked = there = len(ids)
            if looked > LOOKED_AT:
                there, ids = await self._sample(connection, tenant_id)
                looked = len(ids)
            jobs = await self._coming(connection, tenant_id, ids)
        runs = {(row["stretch"], row["queue"]): row["runs"] for row in made}
        whole = there < COUNTED and sum(runs.values()) < MOST_MADE
        return Ahead(now, jobs, runs, looked, there, whole)

    async def ahead_page(
        self, tenant_id: int, start: datetime, end: datetime, before: UUID | None, most: int
    ) -> AheadPage:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            now: datetime = await connection.fetchval(SQL["clock"])
            top = before or LAST_ID
            ids = await self._ids(connection, tenant_id, top, most)
            horizon = ids[-1] if len(ids) >= most else None
            span = (max(now, start), end, top, horizon or FIRST_ID, most)
            rows = await connection.fetch(SQL["jobs_of_runs_ahead"], tenant_id, *span)
            jobs = await self._coming(connection, tenant_id, ids)
        return ahead_page(now, jobs, [(row["job_id"], row["queue"]) for row in rows], horizon, most)

    async def _sample(self, connection: Connection, tenant_id: int) -> tuple[int, list[UUID]]:
        """How many jobs there are, and some of them drawn by lot, in one walk over the tenant's index: what the planner
        believes of their number tells which share to draw."""
        plan = json.loads(await connection.fetchval(SQL["estimate_jobs"], tenant_id))
        there = max(LOOKED_AT, plan[0]["Plan"]["Plan Rows"])
        while True:
            bound = sample_bound(there)
            row = await connection.fetchrow(SQL["sample_jobs"], tenant_id, bound, COUNTED)
            assert row is not None
            there, ids = row["there"], row["ids"] or []
            exact = sample_bound(there)
            if exact <= bound:
                return there, [each for each in ids if each.bytes[-2:] < exact]
            if 2 * len(ids) > SAMPLED:
                return there, ids

    async def _ids(self, connection: Connection, tenant_id: int, before: UUID, most: int) -> list[UUID]:
        return [row["id"] for row in await connection.fetch(SQL["job_ids"], tenant_id, before, most)]

    async def _coming(self, connection: Connection, tenant_id: int, ids: Sequence[UUID]) -> list[ComingJob]:
        """Some at a time: to read ten thousand rows at once keeps the event loop busy for longer than it may be."""
        found: list[ComingJob] = []
        for start in range(0, len(ids), _AT_ONCE):
            rows = await connection.fetch(SQL["coming_jobs"], tenant_id, ids[start : start + _AT_ONCE])
            found += map(coming_job, rows)
        return found

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        found: dict[UUID, list[RunEnd]] = {job_id: [] for job_id in job_ids}
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            for row in await connection.fetch(SQL["recent_runs"], tenant_id, list(found), most):
                found[row["job_id"]].append(run_end(row))
        return found
