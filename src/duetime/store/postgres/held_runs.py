"""What workers hold, for a server that speaks to the database in their place."""

from collections.abc import Sequence
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Claimed
from duetime.model.worker import Worker
from duetime.store.postgres.role import Role


class HeldRunsRole(Role):
    async def worker(self, worker_id: UUID) -> Worker:
        rows = await self.database.fetch("worker_by_id", worker_id)
        if not rows:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        row = rows[0]
        return Worker(row[0], row[1], tuple(row[2]), tuple(row[3]), *row[4:])

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        return [Claimed(*row) for row in await self.database.fetch("runs_of_worker", worker_id, list(run_ids))]

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        found: dict[UUID, tuple[UUID, ...]] = {}
        for worker_id, run_id in await self.database.fetch("cancels_of_workers", list(worker_ids)):
            found[worker_id] = (*found.get(worker_id, ()), run_id)
        return found
