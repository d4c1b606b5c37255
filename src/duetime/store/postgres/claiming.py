"""Claiming: heap-only updates of runs, by lane, above the lane's low-water mark."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

import asyncpg

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.lane import LANE_IDLE, LANES_AT_ONCE, Lane, LaneChanges, LaneTurn, Look, Sight
from duetime.model.microseconds import moment
from duetime.model.worker import Seat
from duetime.store.postgres.database import SQL, columns
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.freed_runs import end_freed
from duetime.store.postgres.limiting import Limits
from duetime.store.postgres.marks import BEGINNING
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.row_columns import LANE_ID, READY
from duetime.store.protocol.ready import Announcement
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.queues import paused_lanes


class ClaimingRole(Role):
    def __init__(self, context: Context, limits: Limits) -> None:
        super().__init__(context)
        self._limits = limits

    async def lanes(self) -> list[Lane]:
        return await self.lane_book.awake()

    async def lane_changes(self, after: LaneTurn) -> LaneChanges:
        changes = await self.lane_book.changes(after)
        if changes.rewound:
            self.marks.forget()
            self.cursor_marks.forget()
        return changes

    async def tidy_lanes(self) -> int:
        return int(await self.database.fetchval("tidy_lanes", LANE_IDLE, LANES_AT_ONCE))

    async def paused_lanes(self) -> frozenset[int]:
        return await paused_lanes(self.transactions)

    async def rules(self) -> Rules:
        return await self._limits.rules()

    async def look(self, lane_ids: Sequence[int], depth: int) -> Look:
        full = self.marks.full_look_is_due
        marks = [BEGINNING if full else self.marks[lane] for lane in lane_ids]
        if not lane_ids:
            return Look(await self.database.fetchval("clock"), (), depth)
        began, before = monotonic(), self.marks.settled
        rows = await self.database.fetch("look", lane_ids, marks, depth, self.marks.noted_at)
        seen = [(lane, ready, ids) for lane, ready, ids, *_ in rows if lane is not None]
        first = {lane: ready[0] for lane, ready, _ in seen}
        if full:
            self.marks.full_look_took(monotonic() - began)
            self.marks.lower(first)
        now: datetime = rows[0]["now"]
        settled = self.marks.observe(now, rows[0]["oldest"], rows[0]["unborn"], before)
        for lane in lane_ids:
            self.marks.advance(lane, first.get(lane), settled)
        return Look(now, tuple(Sight(lane, tuple(ready), tuple(ids)) for lane, ready, ids in seen), depth)

    async def claim(self, worker_id: UUID, claim_no: int, takes: Sequence[tuple[int, int]]) -> list[Claimed]:
        lane_ids = [lane for lane, _ in takes]
        if lane_ids and await self._limits.is_limited(lane_ids):
            return await self._claim_alone(worker_id, claim_no, takes)
        marks, settled = [self.marks[lane] for lane in lane_ids], self.marks.settled
        async with self.database.connection() as connection:
            try:
                rows = await connection.fetch(
                    SQL["claim"], lane_ids, [take for _, take in takes], marks, worker_id, claim_no
                )
            except asyncpg.UniqueViolationError:
                rows = []
            if not rows:
                # Either no run is ready, or this claim has happened before and its answer was lost.
                return [Claimed(*row) for row in await connection.fetch(SQL["claimed_before"], worker_id, claim_no)]
        self.advance(rows, dict(takes), settled)
        return [Claimed(*row) for row in rows]

    async def claim_announced(self, worker_id: UUID, claim_no: int, announced: Sequence[Announcement]) -> list[Claimed]:
        announced = list(dict.fromkeys(announced))  # a run may be announced twice
        takes = Counter(lane for _, lane in announced)
        if await self._limits.is_limited(list(takes)):
            return await self._claim_alone(worker_id, claim_no, list(takes.items()), announced)
        async with self.database.connection() as connection:
            try:
                rows = await connection.fetch(SQL["claim_announced"], *columns(announced, 2), worker_id, claim_no)
            except asyncpg.UniqueViolationError:  # a concurrent call makes the same claim
                rows = await connection.fetch(SQL["claimed_before"], worker_id, claim_no)
        return [Claimed(*row) for row in rows]

    async def _claim_alone(
        self,
        worker_id: UUID,
        claim_no: int,
        takes: Sequence[tuple[int, int]],
        announced: Sequence[Announcement] = (),
    ) -> list[Claimed]:
        """Claim under limits, for one worker."""
        seat = Seat(worker_id, claim_no, sum(take for _, take in takes))
        dealt = await self._limits.claim_limited([seat], takes, announced)
        rows = [] if dealt else await self.database.fetch("claimed_before", worker_id, claim_no)
        return [run for _, run in dealt] or [Claimed(*row) for row in rows]

    @retry_on_deadlock
    async def release(self, worker_id: UUID, claim_nos: Sequence[int]) -> int:
        if not claim_nos:
            return 0
        async with self.database.transaction() as connection:
            # No claim can use a reserved number. This waits for a claim that is using one.
            await connection.execute(SQL["take_numbers"], worker_id, list(claim_nos))
            rows = await connection.fetch(SQL["release"], worker_id, list(claim_nos))
            freed = await end_freed(connection, self.run_maker, rows)
        await self.parking.free(freed)
        self.ready.announce(len(rows))
        return len(rows)

    def advance(self, rows: Sequence[Any], takes: dict[int, int], settled: datetime) -> None:
        """Advance the marks by the rows of `claim`. After a full claim, the rest of a lane begins at its last claimed
        run.

        `settled` is the value from when the claim was sent: to compute a newer one would cost two columns per row. A
        value that a look has found since must not be used: this claim's snapshot may be older, and the mark would
        move past runs that it did not see.
        """
        if self.marks.settled < settled:
            return  # the marks were reset in the meantime
        stamps: dict[int, list[int]] = defaultdict(list)
        for row in rows:
            stamps[row[LANE_ID]].append(row[READY])
        for lane, ready in stamps.items():
            self.marks.advance(lane, moment(max(ready)) if len(ready) >= takes[lane] else None, settled)
