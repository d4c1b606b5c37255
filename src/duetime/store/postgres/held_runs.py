"""What workers hold and report, for a server that speaks to the database in their place."""

from collections.abc import Sequence
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Claimed, Completion
from duetime.model.worker import Worker
from duetime.store.postgres.completing import apply, short_road
from duetime.store.postgres.database import SQL
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.limiting import LimitingRole


class HeldRunsRole(LimitingRole):
    async def worker(self, worker_id: UUID) -> Worker:
        rows = await self.database.fetch("worker_by_id", worker_id)
        if not rows:
            raise NotFound(f"there is no worker {show('wrk', worker_id)}")
        row = rows[0]
        return Worker(row[0], row[1], tuple(row[2]), tuple(row[3]), *row[4:])

    async def held_runs(self, worker_id: UUID, run_ids: Sequence[UUID]) -> list[Claimed]:
        return [Claimed(*row) for row in await self.database.fetch("runs_of_worker", worker_id, list(run_ids))]

    @retry_on_deadlock
    async def complete_many(
        self, reports: Sequence[tuple[UUID, Sequence[Completion], Sequence[int]]]
    ) -> list[frozenset[UUID]]:
        answers = []
        freed: set[int] = set()
        async with self.database.transaction() as connection:
            for worker_id, completions, closed in reports:
                ids = [item.run_id for item in completions]
                told = short_road(completions, worker_id, closed)
                if told is not None:
                    row = await connection.fetchrow(SQL["succeed_runs"], *told, True)
                    assert row is not None
                    accepted = frozenset(ids if row[0] is None else row[0])
                    freed.update(row[1] or ())
                else:
                    applied = await apply(connection, worker_id, completions, closed)
                    accepted = applied.accepted
                    freed |= applied.freed
                answers.append(frozenset(ids) - accepted)
        await self.parking.free(freed)
        waits = any(item.verdict.delay is not None for _, completions, _ in reports for item in completions)
        self.ready.announce(self.has_limits or waits)
        return answers

    async def cancellations_of(self, worker_ids: Sequence[UUID]) -> dict[UUID, tuple[UUID, ...]]:
        found: dict[UUID, tuple[UUID, ...]] = {}
        for worker_id, run_id in await self.database.fetch("cancels_of_workers", list(worker_ids)):
            found[worker_id] = (*found.get(worker_id, ()), run_id)
        return found
