"""Coalescing: what a server does for many remote workers, in one transaction."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.worker import Renewal, Seat
from duetime.store.protocol.service import NOTHING_ANSWERED
from duetime.store.sqlite.claiming import ClaimingRole, claim_for, claimed_runs
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.leasing import renew_one


class DealerClaimsRole(ClaimingRole):
    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        def work(connection: Connection, now: int) -> dict[UUID, list[Claimed]]:
            left = dict(takes)
            dealt: dict[UUID, list[Claimed]] = {}
            for seat in seats:
                this = {"worker_id": seat.worker_id.bytes, "claim_no": seat.claim_no, "now": now}
                dealt[seat.worker_id] = claimed_runs(claim_for(connection, self.lane_book, this, left, seat.room))
            return dealt

        return await self.database.run(work)

    async def renew_many(
        self,
        workers: Sequence[tuple[UUID, Sequence[int]]],
        lease: timedelta,
        answered: Mapping[UUID, int] = NOTHING_ANSWERED,
    ) -> dict[UUID, Renewal | None]:
        def work(connection: Connection, now: int) -> dict[UUID, Renewal | None]:
            return {
                worker_id: renew_one(connection, now, worker_id, lease, open_claims, answered.get(worker_id, 0))
                for worker_id, open_claims in workers
            }

        renewals = await self.database.run(work)
        self.ready.announce(sum(renewal.freed for renewal in renewals.values() if renewal is not None))
        return renewals
