"""Batched claims and renewals for many remote workers, in one transaction."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.attempt import Claimed
from duetime.model.worker import Seat
from duetime.store.sqlite.batches import Batch
from duetime.store.sqlite.claiming import ClaimingRole, claim_for, read_batches
from duetime.store.sqlite.connection import Connection


class DealerClaimsRole(ClaimingRole):
    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        def work(connection: Connection, now: int) -> dict[UUID, list[Batch]]:
            left = dict(takes)
            dealt: dict[UUID, list[Batch]] = {}
            for seat in seats:
                this = {"worker_id": seat.worker_id.bytes, "claim_no": seat.claim_no, "now": now}
                dealt[seat.worker_id] = claim_for(connection, self.lane_book, this, left, seat.room)
            return dealt

        dealt = await self.database.run(work)
        return {worker_id: read_batches(batches) for worker_id, batches in dealt.items()}
