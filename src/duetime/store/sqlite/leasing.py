"""Leases: one row per worker, regardless of the number of its runs."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.errors import LeaseLost
from duetime.model.worker import Declaration, Renewal, WorkerInfo, declarations
from duetime.store.protocol.service import NOTHING_ANSWERED
from duetime.store.rules.quotas import over_quota
from duetime.store.shared.transaction import RunMaker
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.freed_runs import end_freed
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.sweep import set_apart
from duetime.store.sqlite.values import identity, listed, microseconds, moment, packed, places, unpacked


class LeasingRole(Role):
    async def register(self, worker: WorkerInfo, lease: timedelta) -> datetime:
        declared = declarations(worker)

        def work(connection: Connection, now: int) -> int:
            _declare_tasks(connection, now, worker.tenant_id, declared)
            lease_until: int = connection.value(
                "register_worker",
                {
                    "id": worker.id.bytes,
                    "name": worker.name,
                    "tasks": listed(worker.tasks),
                    "queues": listed(worker.queues),
                    "slots": worker.slots,
                    "tenant_id": worker.tenant_id,
                    "version": worker.version,
                    "key_id": None if worker.key_id is None else worker.key_id.bytes,
                    "token_hash": worker.token_hash,
                    "lease": microseconds(lease),
                    "now": now,
                },
            )
            return lease_until

        return moment(await self.database.run(work))

    async def renew(self, worker_id: UUID, lease: timedelta, open_claims: Sequence[int], answered: int = 0) -> Renewal:
        renewal = await self.database.run(
            lambda connection, now: renew_one(connection, now, self.run_maker, worker_id, lease, open_claims, answered)
        )
        if renewal is None:
            raise LeaseLost("the worker was reaped: its lease is over")
        self.ready.announce(renewal.freed)
        return renewal

    async def renew_many(
        self,
        workers: Sequence[tuple[UUID, Sequence[int]]],
        lease: timedelta,
        answered: Mapping[UUID, int] = NOTHING_ANSWERED,
    ) -> dict[UUID, Renewal | None]:
        def work(connection: Connection, now: int) -> dict[UUID, Renewal | None]:
            return {
                worker_id: renew_one(
                    connection, now, self.run_maker, worker_id, lease, open_claims, answered.get(worker_id, 0)
                )
                for worker_id, open_claims in workers
            }

        renewals = await self.database.run(work)
        self.ready.announce(sum(renewal.freed for renewal in renewals.values() if renewal is not None))
        return renewals

    async def unaccounted(self, worker_id: UUID, claim_nos: Sequence[int], run_ids: Sequence[UUID]) -> list[UUID]:
        this = {"worker_id": worker_id.bytes, "claims": listed(claim_nos)}
        held = {run_id.bytes for run_id in run_ids}

        def work(connection: Connection, _now: int) -> list[UUID]:
            claimed = [run_id for (ids,) in connection.rows("runs_of_claims", this) for run_id in unpacked(ids)]
            ids = b"".join([run_id for run_id in claimed if run_id not in held])
            rows = connection.rows("unaccounted_runs", {**this, "ids": ids, "places": places(ids)})
            return [identity(row[0]) for row in rows]

        return await self.database.run(work)

    async def disown(self, worker_id: UUID, run_ids: Sequence[UUID]) -> int:
        def work(connection: Connection, now: int) -> int:
            ids = packed(run_ids)
            rows = connection.rows("runs_of_worker", {"worker_id": worker_id.bytes, "ids": ids, "places": places(ids)})
            if rows:
                set_apart(connection, now, worker_id.bytes, b"".join([row[0] for row in rows]))
            return len(rows)

        return await self.database.run(work)


def _declare_tasks(connection: Connection, now: int, tenant_id: int | None, declared: Sequence[Declaration]) -> None:
    if not declared:
        return
    of_tenant = {"tenant_id": tenant_id}
    ((before, _),) = connection.rows("count_tasks", of_tenant)
    connection.many("declare_tasks", [{**of_tenant, **each._asdict(), "now": now} for each in declared])
    # Counted once for all rows: a trigger would count after each of thousands.
    ((count, most),) = connection.rows("count_tasks", of_tenant)
    if most is not None and count > max(before, most):
        raise over_quota("tasks", most)


def renew_one(
    connection: Connection,
    now: int,
    run_maker: RunMaker,
    worker_id: UUID,
    lease: timedelta,
    open_claims: Sequence[int],
    answered: int,
) -> Renewal | None:
    """Extend a lease; None when it is over."""
    this = {
        "worker_id": worker_id.bytes,
        "lease": microseconds(lease),
        "open": listed(open_claims),
        "answered": answered,
        "now": now,
    }
    lease_until = connection.value("renew_lease", this)
    if lease_until is None:
        return None
    freed = _free_unlisted(connection, run_maker, this)
    return Renewal(moment(lease_until), _cancellations(connection, worker_id), freed)


def _free_unlisted(connection: Connection, run_maker: RunMaker, this: dict[str, Any]) -> int:
    freed = 0
    connection.execute("disown_claims", this)
    for claim_no, ids in connection.rows("unlisted_claims", this):
        rows = connection.rows("free_unlisted", {**this, "claim_no": claim_no, "ids": ids, "places": places(ids)})
        end_freed(connection, this["now"], run_maker, rows)
        freed += len(rows)
    return freed


def _cancellations(connection: Connection, worker_id: UUID) -> tuple[UUID, ...]:
    rows = connection.rows("cancels_of_worker", {"worker_id": worker_id.bytes})
    return tuple(identity(row[0]) for row in rows)
