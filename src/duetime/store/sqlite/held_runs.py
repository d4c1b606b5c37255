"""What workers hold, for a server that speaks to the database in their place."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.store.sqlite.batches import claimed_runs
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import packed, places


class HeldRunsRole(Role):
    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        ids = packed(run_ids)
        this = {"worker_id": worker_id.bytes, "ids": ids, "places": places(ids)}
        rows = await self.database.run(lambda connection, _: connection.rows("runs_of_worker", this))
        return claimed_runs(rows)
