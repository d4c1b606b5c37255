"""What workers hold, for a server that speaks to the database in their place."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.store.postgres.role import Role


class HeldRunsRole(Role):
    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        return [Claimed(*row) for row in await self.database.fetch("runs_of_worker", worker_id, list(run_ids))]
