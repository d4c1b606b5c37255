"""The load of queues: what waits, what runs and what fires soon."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.demand import Activity, Coming, LaneDepth, QueueActivity, QueueAhead
from duetime.model.overview import ComingJob
from duetime.model.tenant import TenantState
from duetime.store.rules.job_rows import Fields, from_row
from duetime.store.shared.figure_rows import coming_job
from duetime.store.shared.transaction import SharedRole, Statements, Transaction

MOST_WAITING = 200_000
"""The cap on the count of a queue's runs."""
MOST_RUNNING = 50_000
"""The cap on the count of running runs of all queues."""
MOST_AHEAD = 200_000
"""How many cursors are seen at most."""
FEW = 100
"""If at most this many jobs fire in a minute, all of them are read."""
SAMPLED = 4000
"""Of the minutes in which more jobs fire, a sample of about this many jobs in total is read."""
_LATE = timedelta(minutes=5)
"""How late a cursor may be that is read. Entries of fired cursors come first in the index until they are removed."""
_AT_ONCE = 1000


class DemandRole(SharedRole):
    async def coming(self, ahead: timedelta) -> Coming:
        async def work(transaction: Transaction) -> Coming:
            now = await transaction.now()
            rows = await transaction.rows(
                "cursors_ahead", since=now - _LATE, until=now + ahead, most=MOST_AHEAD, few=FEW, sampled=SAMPLED
            )
            crowd = [row["job_id"] for row in rows if row["crowded"]]
            seen = rows[0] if rows else None
            few = await _jobs(transaction, [row["job_id"] for row in rows if not row["crowded"]])
            sampled = await _jobs(transaction, crowd)
            tenants = await transaction.rows("tenants_firing", ids=sorted(few.keys() | sampled.keys()))
            firing = {row["id"]: row["fires_per_second"] for row in tenants if row["state"] == TenantState.ACTIVE}
            return Coming(
                now,
                {tenant_id: jobs for tenant_id, jobs in few.items() if tenant_id in firing},
                {tenant_id: jobs for tenant_id, jobs in sampled.items() if tenant_id in firing},
                seen["crowd"] / len(crowd) if seen is not None and crowd else 1.0,
                None if seen is None or seen["seen"] < MOST_AHEAD else seen["horizon"],
                {tenant_id: rate for tenant_id, rate in firing.items() if rate is not None},
            )

        return await self.transactions.run(work)

    async def queue_ahead(self, tenant_id: int, queue: str, since: datetime, step: timedelta, steps: int) -> QueueAhead:
        async def work(transaction: Transaction) -> QueueAhead:
            now = await transaction.now()
            span = {"since": since, "until": now + step * steps, "step": step.total_seconds(), "most": MOST_WAITING}
            rows = await transaction.rows("queue_ahead", tenant_id=tenant_id, queue=queue, **span)
            due = [row for row in rows if row["stretch"] < 0]
            made: defaultdict[int, int] = defaultdict(int)
            for row in rows:
                if row["stretch"] >= 0:
                    made[min(row["stretch"], steps - 1)] += row["runs"]
            return QueueAhead(
                now,
                sum(row["runs"] for row in due),
                sum(row["arrived"] for row in due),
                sum(row["unplanned"] for row in due),
                min((row["ready_at"] for row in due), default=None),
                made,
                len({row["lane_id"] for row in due}),
                sum(row["runs"] for row in rows) < MOST_WAITING,
            )

        return await self.transactions.reading(tenant_id).run(work)

    async def lane_depths(self, lane_ids: Sequence[int], since: datetime, cap: int) -> list[LaneDepth]:
        rows = await self.transactions.rows("lane_depths", lane_ids=list(lane_ids), since=since, cap=cap)
        return [from_row(LaneDepth, row) for row in rows]


async def running_now(statements: Statements, since: datetime) -> Sequence[Fields]:
    return await statements.rows("running_by_queue", since=since, most=MOST_RUNNING)


def activity(now: datetime, since: datetime, ended: Sequence[Fields], running: Iterable[Fields]) -> Activity:
    """`since` is the requested begin; the rows of what ended say how far they reach."""
    queues: dict[tuple[int, str], QueueActivity] = {}
    runs = {(row["tenant_id"], row["queue"]): row for row in running}
    ends = {(row["tenant_id"], row["queue"]): row for row in ended}
    for place in runs.keys() | ends.keys():
        run, end = runs.get(place), ends.get(place)
        queues[place] = QueueActivity(
            0 if run is None else run["running"],
            0 if end is None else end["ends"],
            0 if end is None else end["tried"],
            0.0 if end is None else max(0.0, end["busy"]),
            sum(row["arrived"] for row in (run, end) if row is not None),
            sum(row["unplanned"] for row in (run, end) if row is not None),
        )
    covered = ended[0]["since"] if ended else since
    return Activity(now, covered, queues, sum(row["running"] for row in runs.values()) < MOST_RUNNING)


async def _jobs(transaction: Transaction, ids: Sequence[UUID]) -> dict[int, list[ComingJob]]:
    """By tenant; in batches, as `figures.py` reads them."""
    jobs: defaultdict[int, list[ComingJob]] = defaultdict(list)
    for start in range(0, len(ids), _AT_ONCE):
        some = ids[start : start + _AT_ONCE]
        for row in await transaction.rows("coming_jobs", tenant_id=None, ids=some):
            jobs[row["tenant_id"]].append(coming_job(row))
    return dict(jobs)
