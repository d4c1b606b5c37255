"""Leases: one row per worker, however many runs it holds."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.model.worker import Renewal, Worker, WorkerInfo
from duetime.store.postgres.clashes import again_after_clash
from duetime.store.postgres.control import end_freed
from duetime.store.postgres.database import SQL
from duetime.store.postgres.role import Role
from duetime.store.protocol import Hint


class LeasingRole(Role):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        self.marks.forget()
        lease_until: datetime = await self.database.fetchval(
            "register_worker",
            worker.id,
            worker.name,
            list(worker.tasks),
            list(worker.queues),
            worker.slots,
            lease,
            worker.tenant_id,
            worker.version,
        )
        return lease_until

    @again_after_clash
    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int]) -> Renewal:
        async with self.database.transaction() as connection:
            lease_until = await connection.fetchval(SQL["renew_lease"], worker_id, lease)
            if lease_until is None:
                raise LeaseLost("the worker was reaped: its lease is over")
            freed = await connection.fetch(SQL["free_unlisted"], worker_id, lease, list(open_claims))
            await end_freed(connection, freed)
            rows = await connection.fetch(SQL["cancels_of_worker"], worker_id)
        if freed:
            self.hints.give(Hint.READY)
        return Renewal(lease_until, tuple(row[0] for row in rows), len(freed))

    async def cancellations(self, worker_id: UUID) -> tuple[UUID, ...]:
        return tuple(row[0] for row in await self.database.fetch("cancels_of_worker", worker_id))

    async def leave(self, worker_id: UUID) -> None:
        await self.database.execute("leave", worker_id)

    async def workers(self, tenant_id: int | None = None) -> list[Worker]:
        rows = await self.database.fetch("list_workers", tenant_id)
        return [Worker(row[0], row[1], tuple(row[2]), tuple(row[3]), *row[4:]) for row in rows]
