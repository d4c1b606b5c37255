"""Facts about waiting runs and jobs, for `model/waiting.py`. Read on request only; claims write nothing for it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from msgspec.structs import replace

from duetime.model.breaker import BreakerState
from duetime.model.job import JobState, decode_options
from duetime.model.lane import tier_of
from duetime.model.limits import LimitKind, Rate
from duetime.model.run import RunState, WaitsFor, live_state
from duetime.model.schedule import After, shown_schedule
from duetime.model.target import kind_of
from duetime.model.tenant import TenantState
from duetime.model.waiting import AHEAD_CAP, NAMED, JobFacts, LimitFacts, RunFacts, Serving, WaitingParent
from duetime.store.rules.job_rows import planned_for
from duetime.store.shared.transaction import Row, SharedRole, Transaction, found

_PARENTS = 20


class WaitingRole(SharedRole):
    async def run_facts(self, tenant_id: int, run_id: UUID) -> RunFacts | None:
        facts = await self.transactions.reading(tenant_id).run(
            lambda transaction: _facts(transaction, tenant_id, run_id)
        )
        if facts is None or not facts.serving.workers:
            return facts
        busy = await self._busy(tenant_id, facts)
        return replace(facts, serving=replace(facts.serving, busy=busy))

    async def _busy(self, tenant_id: int, facts: RunFacts) -> int:
        """Slots in use by runs of all tenants, which the tenant's own transaction does not see."""
        rows = await self.transactions.rows("busy_slots", tenant_id=tenant_id, **_wanted(facts.task, facts.queue))
        return sum(row["count"] for row in rows)

    async def waiting_run_of_job(self, tenant_id: int, job_id: UUID) -> UUID | None:
        reading = self.transactions.reading(tenant_id)
        run_id: UUID | None = await reading.value("waiting_run_of_job", tenant_id=tenant_id, job_id=job_id)
        return run_id

    async def job_facts(self, tenant_id: int, job_id: UUID) -> JobFacts | None:
        async def work(transaction: Transaction) -> JobFacts | None:
            row = await transaction.row("waiting_job", tenant_id=tenant_id, job_id=job_id)
            if row is None:
                return None
            schedule = shown_schedule(row["schedule"])
            return JobFacts(
                now=await transaction.now(),
                state=JobState(row["state"]),
                next_run=planned_for(row),
                problem=row["problem"],
                is_follower=isinstance(schedule, After),
                follows=schedule.job if isinstance(schedule, After) else None,
                tenant_state=TenantState(row["tenant"]),
                held_back=row["held"],
                fires_per_second=row["fires_per_second"],
            )

        return await self.transactions.reading(tenant_id).run(work)


async def _facts(transaction: Transaction, tenant_id: int, run_id: UUID) -> RunFacts | None:
    row = await transaction.row("waiting_run", tenant_id=tenant_id, run_id=run_id)
    if row is None:
        return None
    now = await transaction.now()
    base = _base(row, now)
    if base.state is RunState.RUNNING:
        return base
    options, task = decode_options(row["options"]), row["task"]
    target = options.breaker_key or task
    limits = [
        await _limit(transaction, tenant_id, kind, name, now, row["running_runs"])
        for kind, name in ((LimitKind.TENANT, ""), (LimitKind.QUEUE, row["queue"]))
    ]
    held = {limit_id: await _limit_by_id(transaction, tenant_id, limit_id, now) for limit_id in _own_limits(row)}
    parents: Sequence[Row] = ()
    if base.waits is WaitsFor.PARENTS:
        parents = await transaction.rows("waiting_parents", tenant_id=tenant_id, job_id=base.job_id, limit=_PARENTS)
    others: Sequence[Row] = ()
    if base.waits is WaitsFor.OTHER_RUNS:
        of_job = {"tenant_id": tenant_id, "job_id": base.job_id, "run_id": run_id, "limit": NAMED}
        others = await transaction.rows("runs_before", **of_job)
    of_task = {"tenant_id": tenant_id, "task": task, "job_id": base.job_id}
    losses = await transaction.row("losses_of", **of_task) if base.trial else None
    breaker = await transaction.row("breaker_of", tenant_id=tenant_id, target=target)
    ahead = await _ahead(transaction, tenant_id, base)
    return replace(
        base,
        parked=held.get(row["parked_by"]),
        put_off=held.get(row["put_off_by"]),
        limits=tuple(limit for limit in limits if limit is not None),
        breaker=None if breaker is None else (target, BreakerState(breaker["state"]), breaker["until"]),
        serving=await _serving(transaction, tenant_id, base),
        higher=ahead[0],
        earlier=ahead[1],
        other_runs=tuple(each["id"] for each in others),
        parents=tuple(WaitingParent(each["parent_id"], each["name"]) for each in parents),
        unended=parents[0]["unended"] if parents else 0,
        losses=0 if losses is None else losses["losses"],
        lost_at=None if losses is None else losses["at"],
    )


def _base(row: Row, now: datetime) -> RunFacts:
    return RunFacts(
        now=now,
        run_id=row["id"],
        job_id=row["job_id"],
        state=live_state(
            claimed=row["worker_id"] is not None,
            has_lane=row["lane_id"] is not None,
            attempt=row["attempt"],
            lost=row["lost"],
        ),
        task=row["task"],
        queue=row["queue"],
        tier=tier_of(row["tier"]),
        due_at=row["due_at"],
        ready_at=row["ready_at"],
        trial=row["trial"],
        waits=WaitsFor(row["waits"]),
        tenant_state=TenantState(row["tenant"]),
        paused_at=row["paused_at"],
    )


def _own_limits(row: Row) -> list[int]:
    return [row[name] for name in ("parked_by", "put_off_by") if row[name] is not None]


async def _limit(
    transaction: Transaction, tenant_id: int, kind: LimitKind, name: str, now: datetime, most: int | None
) -> LimitFacts | None:
    row = await transaction.row("limit_by_name", tenant_id=tenant_id, kind=int(kind), name=name)
    if row is None:
        return None
    running = most if kind is LimitKind.TENANT else row["running"]
    return await _standing(transaction, row, now, running)


async def _limit_by_id(transaction: Transaction, tenant_id: int, limit_id: int, now: datetime) -> LimitFacts | None:
    row = await transaction.row("limit_by_id", tenant_id=tenant_id, limit_id=limit_id)
    return None if row is None else await _standing(transaction, row, now, row["running"])


async def _standing(transaction: Transaction, row: Row, now: datetime, running: int | None) -> LimitFacts:
    of_limit = {"limit_id": row["limit_id"]}
    counts = found(await transaction.row("limit_counts", **of_limit, cap=AHEAD_CAP))
    rate = None if row["rate"] is None or row["period"] is None else Rate(row["rate"], row["period"])
    full = running is not None and counts["live"] >= running
    holders = await transaction.rows("limit_holders", **of_limit, limit=NAMED) if full else ()
    used_up = rate is not None and counts["runs"] >= rate.count
    return LimitFacts(
        kind=LimitKind(row["kind"]),
        name=row["name"],
        running=running,
        live=counts["live"],
        full=full,
        rate=rate,
        free_at=counts["until"] if used_up else None,
        holders=tuple(each["run_id"] for each in holders),
    )


def _wanted(task: str, queue: str) -> Mapping[str, str]:
    return {"task": kind_of(task), "queue": queue}


async def _serving(transaction: Transaction, tenant_id: int, base: RunFacts) -> Serving:
    wanted = _wanted(base.task, base.queue)
    row = found(await transaction.row("workers_of_task", tenant_id=tenant_id, **wanted))
    if row["count"]:
        return Serving(row["count"], row["there"], row["slots"])
    past = await transaction.row("last_worker_of_task", tenant_id=tenant_id, task=wanted["task"])
    if past is None:
        return Serving(0, row["there"])
    return Serving(0, row["there"], 0, 0, past["name"], past["ended_at"], past["gone"])


async def _ahead(transaction: Transaction, tenant_id: int, base: RunFacts) -> tuple[int, int]:
    if base.ready_at > base.now or base.waits is not WaitsFor.NOTHING:
        return 0, 0
    mine = {"tier": int(base.tier), "ready_at": base.ready_at, "run_id": base.run_id}
    rows = await transaction.rows("runs_ahead_of", tenant_id=tenant_id, queue=base.queue, **mine, cap=AHEAD_CAP)
    higher = sum(row["depth"] for row in rows if row["tier"] < base.tier)
    return higher, sum(row["depth"] for row in rows if row["tier"] == base.tier)
