"""What workers hold, for a server that speaks to the database in their place."""

from collections.abc import Sequence
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Claimed
from duetime.model.worker import Worker
from duetime.store.sqlite.claiming import claimed_runs
from duetime.store.sqlite.leasing import worker_of
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, packed, places


class HeldRunsRole(Role):
    async def worker(self, worker_id: UUID) -> Worker:
        rows = await self.database.run(
            lambda connection, _: connection.rows("worker_by_id", {"worker_id": worker_id.bytes})
        )
        if not rows:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        return worker_of(rows[0])

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        ids = packed(run_ids)
        this = {"worker_id": worker_id.bytes, "ids": ids, "places": places(ids)}
        rows = await self.database.run(lambda connection, _: connection.rows("runs_of_worker", this))
        return claimed_runs(rows)

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        ids = packed(worker_ids)
        this = {"ids": ids, "places": places(ids)}
        found: dict[UUID, tuple[UUID, ...]] = {}
        for worker, run in await self.database.run(lambda connection, _: connection.rows("cancels_of_workers", this)):
            found[identity(worker)] = (*found.get(identity(worker), ()), identity(run))
        return found
