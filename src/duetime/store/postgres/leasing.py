"""Leases: one row per worker, regardless of the number of its runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from operator import itemgetter
from uuid import UUID

from duetime.errors import LeaseLost, QuotaExceeded
from duetime.model.worker import Renewal, WorkerInfo, declarations
from duetime.store.postgres.database import SQL, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.freed_runs import end_freed
from duetime.store.postgres.role import Role
from duetime.store.protocol.service import NOTHING_ANSWERED
from duetime.store.rules.strays import number_apart
from duetime.store.shared.pausing import JobIsHeld


class LeasingRole(Role):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        self.marks.forget()
        lease_until: datetime = await self.transactions.value(
            "register_worker",
            id=worker.id,
            name=worker.name,
            tasks=list(worker.tasks),
            queues=list(worker.queues),
            slots=worker.slots,
            lease=lease,
            tenant_id=worker.tenant_id,
            version=worker.version,
            key_id=worker.key_id,
            token_hash=worker.token_hash,
        )
        if worker.defaults:
            # Sorted, so that two workers that register at once cannot deadlock. A statement of its own, so that a node
            # that freezes after it holds no locks.
            declared = sorted(declarations(worker), key=itemgetter(0))
            try:
                await self.database.execute("declare_tasks", worker.tenant_id, *columns(declared, 4))
            except QuotaExceeded:
                await self.database.execute("take_back_registration", worker.id)
                raise
        return lease_until

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int = 0) -> Renewal:
        renewal = (await self.renew_many([(worker_id, open_claims)], lease, {worker_id: answered}))[worker_id]
        if renewal is None:
            raise LeaseLost("the worker was reaped: its lease is over")
        return renewal

    @retry_on_deadlock
    async def renew_many(
        self,
        workers: Sequence[tuple[UUID, Sequence[int]]],
        lease: timedelta,
        answered: Mapping[UUID, int] = NOTHING_ANSWERED,
    ) -> dict[UUID, Renewal | None]:
        # One statement: a node that froze between two of them would hold these leases locked, and no reaper could work.
        listed = [(worker_id, claim_no) for worker_id, open_claims in workers for claim_no in open_claims]
        rows = await self.database.fetch("renew_leases", [each for each, _ in workers], lease, *columns(listed, 2))
        found: dict[UUID, Renewal | None] = {worker_id: None for worker_id, _ in workers}
        open_claims_of = dict(workers)
        for worker_id, lease_until, cancelled, has_unlisted in rows:
            freed = 0
            if has_unlisted:
                open_claims = open_claims_of[worker_id]
                try:
                    freed = await self._free_unlisted(worker_id, lease, open_claims, answered.get(worker_id, 0))
                except JobIsHeld:
                    freed = 0  # the leases are renewed; these claims stay until the next heartbeat
            found[worker_id] = Renewal(lease_until, tuple(cancelled), freed)
        return found

    @retry_on_deadlock
    async def _free_unlisted(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int) -> int:
        async with self.database.transaction() as connection:
            await connection.execute(SQL["disown_claims"], worker_id, lease, list(open_claims), answered)
            rows = await connection.fetch(SQL["free_unlisted"], worker_id, lease, list(open_claims))
            freed = await end_freed(connection, self.run_maker, rows)
        await self.parking.free(freed)
        self.ready.announce(len(rows))
        return len(rows)

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        rows = await self.database.fetch("unaccounted_runs", worker_id, list(claim_nos), list(run_ids))
        return [row[0] for row in rows]

    @retry_on_deadlock
    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        async with self.database.transaction() as connection:
            held = [row[0] for row in await connection.fetch(SQL["hold_runs_at_hand"], worker_id, list(run_ids))]
            number = number_apart(await connection.fetchval(SQL["clock"]))
            await connection.execute(SQL["set_apart"], worker_id, held, number)
        return len(held)
