"""Coalescing: one statement claims, and one renews, for many remote workers."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

import asyncpg
from msgspec.structs import astuple

from duetime.model.attempt import Claimed
from duetime.model.worker import Renewal, Seat
from duetime.store.postgres.claiming import ClaimingRole
from duetime.store.postgres.control import end_freed
from duetime.store.postgres.database import SQL, Connection, Row, columns
from duetime.store.protocol import Hint


class CoalescingRole(ClaimingRole):
    async def claim_many(self, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]) -> dict[UUID, list[Claimed]]:
        dealt: dict[UUID, list[Claimed]] = {seat.worker_id: [] for seat in seats}
        lane_ids = [lane for lane, _ in takes]
        limited = bool(lane_ids) and await self.is_limited(lane_ids)
        if limited:
            for worker_id, run in await self.claim_limited(seats, takes):
                dealt[worker_id].append(run)
        settled = self.marks.settled
        async with self.database.connection() as connection:
            rows = [] if limited else await self._claim_many(connection, seats, takes)
            for row in rows:
                dealt[row[0]].append(Claimed(*row[1:]))
            if rows:
                self.advance([row[1:] for row in map(tuple, rows)], dict(takes), settled)
            # Who got nothing may have asked before, and the answer was lost on the way.
            empty = [(seat.worker_id, seat.claim_no) for seat in seats if not dealt[seat.worker_id]]
            if empty:
                for row in await connection.fetch(SQL["claims_before"], *columns(empty, 2)):
                    dealt[row[0]].append(Claimed(*row[1:]))
        return dealt

    async def _claim_many(
        self, connection: Connection, seats: Sequence[Seat], takes: Sequence[tuple[int, int]]
    ) -> list[Row]:
        lane_ids = [lane for lane, _ in takes]
        asked = (lane_ids, [take for _, take in takes], [self.marks[lane] for lane in lane_ids])
        try:
            return await connection.fetch(SQL["claim_many"], *asked, *columns([astuple(seat) for seat in seats], 3))
        except asyncpg.UniqueViolationError:
            return []  # another server claimed for one of them this very moment

    async def renew_many(
        self, workers: Sequence[tuple[UUID, Sequence[int]]], lease: timedelta
    ) -> dict[UUID, Renewal | None]:
        ids = [worker_id for worker_id, _ in workers]
        listed = [(worker_id, claim_no) for worker_id, open_claims in workers for claim_no in open_claims]
        cancelled: dict[UUID, list[UUID]] = defaultdict(list)
        freed_of: dict[UUID, int] = defaultdict(int)
        async with self.database.transaction() as connection:
            renewed = {row[0]: row[1] for row in await connection.fetch(SQL["renew_leases"], ids, lease)}
            alive = list(renewed)
            freed = await connection.fetch(SQL["free_unlisted_of_many"], alive, lease, *columns(listed, 2))
            await end_freed(connection, [row[1:] for row in map(tuple, freed)])
            for row in await connection.fetch(SQL["cancels_of_workers"], alive):
                cancelled[row[0]].append(row[1])
        for row in freed:
            freed_of[row[0]] += 1
        if freed:
            self.hints.give(Hint.READY)
        return {
            worker_id: Renewal(renewed[worker_id], tuple(cancelled[worker_id]), freed_of[worker_id])
            if worker_id in renewed
            else None
            for worker_id in ids
        }
