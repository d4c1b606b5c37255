"""Workers as they are read back, what they are asked to stop, and their leave."""

from collections.abc import Sequence
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.worker import Worker
from duetime.store.shared.job_rows import from_row
from duetime.store.shared.transaction import Row, SharedRole


class WorkerRole(SharedRole):
    async def workers(self, tenant_id: int | None = None) -> list[Worker]:
        return [_worker(row) for row in await self.transactions.rows("list_workers", tenant_id=tenant_id)]

    async def worker(self, worker_id: UUID) -> Worker:
        row = await self.transactions.row("worker_by_id", worker_id=worker_id)
        if row is None:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        return _worker(row)

    async def leave(self, worker_id: UUID) -> None:
        await self.transactions.execute("leave", worker_id=worker_id)

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        return tuple(row["run_id"] for row in await self.transactions.rows("cancels_of_worker", worker_id=worker_id))

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        found: dict[UUID, tuple[UUID, ...]] = {}
        for row in await self.transactions.rows("cancels_of_workers", ids=list(worker_ids)):
            found[row["worker_id"]] = (*found.get(row["worker_id"], ()), row["run_id"])
        return found


def _worker(row: Row) -> Worker:
    return from_row(Worker, row, tasks=tuple(row["tasks"]), queues=tuple(row["queues"]))
