"""Figures: counts up to a cap, and the schedules of a tenant's jobs for forecasts."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.lists import RunEnd
from duetime.model.overview import Ahead, AheadPage, ComingJob, Count, Standing
from duetime.model.tenant import TenantState
from duetime.store.shared.figure_rows import (
    CAP,
    COUNTED,
    LOOKED_AT,
    MOST_MADE,
    SAMPLED,
    ahead_page,
    coming_job,
    count_to,
    sample_bound,
    waiting,
)
from duetime.store.shared.list_rows import run_end
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID
from duetime.store.shared.transaction import Row, SharedRole, Statements, Transaction, found

_AT_ONCE = 1000


class FigureRole(SharedRole):
    async def standing(self, tenant_id: int) -> Standing:
        async def work(transaction: Transaction) -> tuple[Row, Sequence[Row]]:
            row = found(await transaction.row("standing", tenant_id=tenant_id, cap=CAP))
            return row, await transaction.rows("waiting_lanes", tenant_id=tenant_id)

        row, lanes = await self.transactions.reading(tenant_id).run(work)
        jobs = count_to(row["jobs"], CAP)
        if jobs.kind != "exact" and (estimate := await _estimate(self.transactions, tenant_id)) is not None:
            jobs = Count(max(CAP, estimate), "estimate")
        return Standing(jobs, count_to(row["running"], CAP), count_to(row["dead_letters"], CAP), waiting(lanes))

    async def ahead(self, tenant_id: int, start: datetime, step: timedelta, steps: int) -> Ahead:
        async def work(transaction: Transaction) -> Ahead:
            now = await transaction.now()
            state, rate, stored = await _firing(transaction, tenant_id)
            if state is not TenantState.ACTIVE:
                return Ahead(now, (), {}, 0, 0, state=state)
            span = {"since": max(now, start), "until": start + step * steps, "start": start, "step": step}
            rows = await transaction.rows("runs_ahead", tenant_id=tenant_id, **span, most=MOST_MADE)
            runs = {(row["stretch"], row["queue"]): row["runs"] for row in rows}
            ids = await _ids(transaction, tenant_id, LAST_ID, LOOKED_AT + 1)
            looked = there = len(ids)
            if looked > LOOKED_AT:
                there, ids = await _sample(transaction, tenant_id)
                looked = len(ids)
            whole = there < COUNTED and sum(runs.values()) < MOST_MADE
            jobs = await _coming(transaction, tenant_id, ids)
            return Ahead(now, jobs, runs, looked, there, whole, fires_per_second=rate, stored_jobs=stored)

        return await self.transactions.reading(tenant_id).run(work)

    async def ahead_page(
        self, tenant_id: int, start: datetime, end: datetime, before: UUID | None, most: int
    ) -> AheadPage:
        async def work(transaction: Transaction) -> AheadPage:
            now = await transaction.now()
            state, rate, stored = await _firing(transaction, tenant_id)
            if state is not TenantState.ACTIVE:
                return AheadPage(now, (), {}, None)
            top = before or LAST_ID
            ids = await _ids(transaction, tenant_id, top, most)
            horizon = ids[-1] if len(ids) >= most else None
            span = {"since": max(now, start), "until": end, "before": top, "floor": horizon or FIRST_ID, "most": most}
            rows = await transaction.rows("jobs_of_runs_ahead", tenant_id=tenant_id, **span)
            jobs = await _coming(transaction, tenant_id, ids)
            made = [(row["job_id"], row["queue"], row["runs"]) for row in rows]
            limited = rate is not None or stored is not None
            return ahead_page(now, jobs, made, horizon, most, limited=limited)

        return await self.transactions.reading(tenant_id).run(work)

    async def recent_runs(self, tenant_id: int, job_ids: Sequence[UUID], most: int) -> dict[UUID, list[RunEnd]]:
        ends: dict[UUID, list[RunEnd]] = {job_id: [] for job_id in job_ids}
        reading = self.transactions.reading(tenant_id)
        for row in await reading.rows("recent_runs", tenant_id=tenant_id, ids=list(ends), most=most):
            ends[row["job_id"]].append(run_end(row))
        return ends


async def _firing(transaction: Transaction, tenant_id: int) -> tuple[TenantState, float | None, int | None]:
    """Whether the tenant's jobs fire, how often at most per second, and how many may be stored."""
    row = await transaction.row("find_firing", tenant_id=tenant_id)
    if row is None:
        return TenantState.ACTIVE, None, None
    return TenantState(row["state"]), row["fires_per_second"], row["stored_jobs"]


async def _estimate(statements: Statements, tenant_id: int) -> int | None:
    """The planner's estimate of a tenant's jobs; None without an estimate."""
    plan: str | None = await statements.value("estimate_jobs", tenant_id=tenant_id)
    return None if plan is None else int(json.loads(plan)[0]["Plan"]["Plan Rows"])


async def _sample(transaction: Transaction, tenant_id: int) -> tuple[int, list[UUID]]:
    """The number of jobs, and a random sample of them. The planner's estimate, if there is one, gives the share to
    sample: then one walk over the tenant's index is enough."""
    there = await _estimate(transaction, tenant_id)
    if there is None:
        there = int(await transaction.value("count_jobs_to_sample", tenant_id=tenant_id, most=COUNTED))
    there = max(LOOKED_AT, there)
    while True:
        bound = sample_bound(there)
        row = found(await transaction.row("sample_jobs", tenant_id=tenant_id, bound=bound, most=COUNTED))
        there, ids = row["there"], list(row["ids"] or ())
        exact = sample_bound(there)
        if exact <= bound:
            return there, [each for each in ids if each.bytes[-2:] < exact]
        if 2 * len(ids) > SAMPLED:
            return there, ids


async def _ids(transaction: Transaction, tenant_id: int, before: UUID, most: int) -> list[UUID]:
    rows = await transaction.rows("job_ids", tenant_id=tenant_id, before=before, most=most)
    return [row["id"] for row in rows]


async def _coming(transaction: Transaction, tenant_id: int, ids: Sequence[UUID]) -> list[ComingJob]:
    """In batches: decoding ten thousand rows at once would block the event loop for too long."""
    jobs: list[ComingJob] = []
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        jobs += map(coming_job, await transaction.rows("coming_jobs", tenant_id=tenant_id, ids=some))
    return jobs
