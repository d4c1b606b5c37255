"""Workers as they are read back, what they are asked to stop, and their leave."""

from collections.abc import Collection, Mapping, Sequence
from uuid import UUID

import msgspec

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.run import RunState, live_state
from duetime.model.worker import MOST_PAST_WORKERS, PastWorker, RunFate, Worker
from duetime.store.rules.job_rows import from_row
from duetime.store.shared.transaction import Row, SharedRole, Transaction


class WorkerRole(SharedRole):
    async def workers(self, tenant_id: int | None = None) -> list[Worker]:
        return [_worker(row) for row in await self.transactions.rows("list_workers", tenant_id=tenant_id)]

    async def past_workers(self, tenant_id: int) -> list[PastWorker]:
        async def work(transaction: Transaction) -> list[PastWorker]:
            rows = await transaction.rows("list_past_workers", tenant_id=tenant_id, limit=MOST_PAST_WORKERS)
            ids = list({run_id for row in rows for run_id in row["run_ids"]})
            fates = await transaction.rows("fates_of_runs", tenant_id=tenant_id, ids=ids) if ids else ()
            known = {row["run_id"]: _fate(row) for row in fates}
            return [_past(row, tenant_id, known) for row in rows]

        return await self.transactions.reading(tenant_id).run(work)

    async def worker(self, worker_id: UUID) -> Worker:
        row = await self.transactions.row("worker_by_id", worker_id=worker_id)
        if row is None:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        return _worker(row)

    async def leave(self, worker_id: UUID) -> None:
        await self.transactions.execute("leave", worker_id=worker_id)

    async def record_consumed(self, worker_id: UUID, streams: Collection[str]) -> None:
        await self.transactions.execute("record_consumed", worker_id=worker_id, streams=sorted(streams))

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        return tuple(row["run_id"] for row in await self.transactions.rows("cancels_of_worker", worker_id=worker_id))

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        found: dict[UUID, tuple[UUID, ...]] = {}
        for row in await self.transactions.rows("cancels_of_workers", ids=list(worker_ids)):
            found[row["worker_id"]] = (*found.get(row["worker_id"], ()), row["run_id"])
        return found


def _past(row: Row, tenant_id: int, fates: Mapping[UUID, RunFate]) -> PastWorker:
    held: dict[int, int] = msgspec.json.decode(row["body"], type=dict[int, int])
    return from_row(
        PastWorker,
        row,
        tasks=tuple(row["tasks"]),
        queues=tuple(row["queues"]),
        lost=row["gone"],
        held=held.get(tenant_id, 0),
        runs=tuple(fates[run_id] for run_id in row["run_ids"] if run_id in fates),
    )


def _fate(row: Row) -> RunFate:
    if row["end_state"] is not None:
        return RunFate(row["run_id"], row["task"], RunState(row["end_state"]))
    live = live_state(
        claimed=row["worker_id"] is not None,
        has_lane=row["lane_id"] is not None,
        attempt=row["attempt"],
        lost=row["lost"],
    )
    return RunFate(row["run_id"], row["task"], live)


def _worker(row: Row) -> Worker:
    return from_row(
        Worker, row, tasks=tuple(row["tasks"]), queues=tuple(row["queues"]), consumes=tuple(row["consumes"])
    )
