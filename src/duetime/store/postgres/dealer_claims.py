"""Coalescing: one statement claims for many remote workers."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg
from msgspec.structs import astuple

from duetime.model.attempt import Claimed
from duetime.model.worker import Seat
from duetime.store.postgres.claiming import ClaimingRole
from duetime.store.postgres.database import SQL, Connection, Row, columns


class DealerClaimsRole(ClaimingRole):
    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        dealt: dict[UUID, list[Claimed]] = {seat.worker_id: [] for seat in seats}
        lane_ids = [lane for lane, _ in takes]
        limited = bool(lane_ids) and await self._limits.is_limited(lane_ids)
        if limited:
            for worker_id, run in await self._limits.claim_limited(seats, takes):
                dealt[worker_id].append(run)
        settled = self.marks.settled
        async with self.database.connection() as connection:
            rows = [] if limited else await self._claim_many(connection, seats, takes)
            for row in rows:
                dealt[row[0]].append(Claimed(*row[1:]))
            if rows:
                # Some of the workers may be gone, so any lane may have runs left that found no room.
                self.advance([row[1:] for row in map(tuple, rows)], dict.fromkeys(lane_ids, 0), settled)
            # A worker without runs may have claimed before, and the answer was lost.
            empty = [(seat.worker_id, seat.claim_no) for seat in seats if not dealt[seat.worker_id]]
            if empty:
                for row in await connection.fetch(SQL["claims_before"], *columns(empty, 2)):
                    dealt[row[0]].append(Claimed(*row[1:]))
        return dealt

    async def _claim_many(
        self, connection: Connection, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]
    ) -> list[Row]:
        lane_ids = [lane for lane, _ in takes]
        chosen: list[UUID] = []
        asked = (lane_ids, [take for _, take in takes], [self.marks[lane] for lane in lane_ids], chosen)
        try:
            return await connection.fetch(SQL["claim_many"], *asked, *columns([astuple(seat) for seat in seats], 3))
        except asyncpg.UniqueViolationError:
            return []  # another server claims for one of them at this moment
