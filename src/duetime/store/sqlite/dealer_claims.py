"""Batched claims and renewals for many remote workers, in one transaction."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.worker import Seat
from duetime.store.sqlite.claiming import ClaimingRole, claim_for, claimed_runs
from duetime.store.sqlite.connection import Connection


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
