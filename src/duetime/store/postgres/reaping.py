"""Reaping: the runs of a lost worker are freed; `judge` decides what becomes of each."""

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.model.suspicion import Loss
from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import DEADLINE, MARK, SQL, Connection, Row
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.suspects import SuspectsRole
from duetime.store.postgres.sweep import SweepRole
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import lost_with_worker, not_held, past_timeout
from duetime.store.rules.strays import ClaimStanding
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.hand_over import Complete, reap_late
from duetime.store.shared.suspects import suspect, tend_suspects

log = logging.getLogger("duetime.reaper")

ABANDONED_AFTER = timedelta(seconds=DEADLINE)
"""A live client has given up its statement by then."""
_ABANDONED_EVERY = 5.0


class ReapingRole(Role):
    def __init__(
        self, context: Context, clocks: ClockRole, suspects: SuspectsRole, sweep: SweepRole, apply_judged: Complete
    ) -> None:
        super().__init__(context)
        self._clocks = clocks
        self._suspects = suspects
        self._sweep = sweep
        self._apply_judged = apply_judged

    _look_for_abandoned_at = 0.0
    _silent: Mapping[tuple[int, datetime], float] = MappingProxyType({})
    """Sessions that wait for their client, by process id and start of the wait, with the time of the first sighting."""

    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        judged = 0
        freed: set[int] = set()
        await self._end_abandoned()
        await self._clocks.shift_back_in_turn()
        await self._sweep.sweep(judge)
        async with self.database.transaction() as connection:
            # The worker's row is deleted first, so that a reaped worker can never renew.
            await connection.execute(SQL["forget_dead_workers"])
            judged += await self._reap_dead(connection, limit, judge, freed)
            for claim in await connection.fetch(SQL["overdue_claims"], limit, overdue):
                judged += await _reap_overdue(connection, claim, judge, overdue, freed)
            late, room = await reap_late(PostgresTransaction(connection), self._apply_judged, limit, judge)
            judged += late
            freed |= room
            await connection.execute(SQL["forget_cancels"])
            await tend_suspects(PostgresTransaction(connection))
        await self.parking.free(freed)
        self.ready.announce(judged)
        return judged

    async def _end_abandoned(self) -> None:
        """End sessions whose client is frozen or cut off, because they keep their locks.

        The server itself ends a session that is idle in a transaction, but not one that has sent a statement without
        Sync, as the driver does when it prepares a statement.

        The silence is measured here, because the server's clock may step.
        """
        now = monotonic()
        if now < self._look_for_abandoned_at:
            return
        self._look_for_abandoned_at = now + _ABANDONED_EVERY
        queries = {(pid, since): query for pid, since, query in await self.database.fetch("silent_sessions", MARK)}
        self._silent = {session: self._silent.get(session, now) for session in queries}
        for (pid, since), seen_at in self._silent.items():
            silent_for = timedelta(seconds=now - seen_at)
            if silent_for >= ABANDONED_AFTER and await self.database.fetchval("end_abandoned", pid, since):
                log.warning(
                    "ended the session of process %d: its client was silent for %s during %.80r",
                    pid,
                    format_duration(silent_for),
                    queries[pid, since],
                )

    async def _reap_dead(self, connection: Connection, limit: int, judge: JudgeLost, freed: set[int]) -> int:
        claims = [tuple(row) for row in await connection.fetch(SQL["dead_claims"], limit)]
        lost = [await connection.fetch(SQL["lost_runs"], ids, worker, number) for worker, number, ids, _ in claims]
        losses = await self._losses(connection, claims, lost)
        lanes = await suspect(PostgresTransaction(connection), self.run_maker, losses)
        if lanes:
            self._suspects.note()
        for (worker_id, claim_no, run_ids, standing), rows in zip(claims, lost, strict=True):
            if rows:
                found = not_held(rows) if standing == ClaimStanding.NOT_HELD else lost_with_worker(rows)
                freed |= (await apply(connection, worker_id, judge(found), lanes=lanes)).freed
            # A run that is being completed was skipped: its claim stays until the completion has ended.
            if not await connection.fetchval(SQL["count_claimed"], run_ids, worker_id, claim_no):
                await connection.execute(SQL["delete_claims"], [worker_id], [claim_no])
        return sum(map(len, lost))

    async def _losses(
        self, connection: Connection, claims: Sequence[tuple[Any, ...]], lost: Sequence[Sequence[Row]]
    ) -> list[Loss]:
        """The runs that were lost with their worker. Runs that a live worker does not hold have killed no process."""
        keys = await self.lane_book.keys_within(connection, [row["home_lane"] for rows in lost for row in rows])
        return [
            Loss(row["id"], worker_id, row["job_id"], keys[row["home_lane"]], row["lost"] + 1)
            for (worker_id, _, _, standing), rows in zip(claims, lost, strict=True)
            for row in (rows if standing != ClaimStanding.NOT_HELD else ())
        ]


async def _reap_overdue(
    connection: Connection, claim: Row, judge: JudgeLost, overdue: timedelta, freed: set[int]
) -> int:
    worker_id, claim_no, run_ids = claim
    lost = past_timeout(await connection.fetch(SQL["lost_runs"], run_ids, worker_id, claim_no), overdue)
    if lost:
        freed |= (await apply(connection, worker_id, judge(lost))).freed
    await connection.execute(SQL["next_deadline"], worker_id, claim_no)
    return len(lost)
