"""Reaping: runs whose worker is gone are freed, judged one by one, and counted as lost."""

import logging
from datetime import timedelta

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.model.lane import trial_after
from duetime.store.losses import lost_with_worker, past_timeout
from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import DEADLINE, SQL, Connection, Row
from duetime.store.postgres.handing_over import reap_late
from duetime.store.postgres.role import Role
from duetime.store.protocol import Hint
from duetime.store.roles import JudgeLost

log = logging.getLogger("duetime.reaper")

ABANDONED_AFTER = timedelta(seconds=DEADLINE)
"""Whoever lives has given up by then, and asks anew."""
_ABANDONED_EVERY = 5.0


class ReapingRole(Role):
    _look_for_abandoned_at = 0.0

    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        judged = 0
        await self._end_abandoned()
        async with self.database.transaction() as connection:
            # Its row goes first: a worker that was reaped cannot renew, however late it comes to that.
            await connection.execute(SQL["forget_dead_workers"])
            for claim in await connection.fetch(SQL["dead_claims"], limit):
                judged += await self._reap_dead(connection, claim, judge)
            for claim in await connection.fetch(SQL["overdue_claims"], limit, overdue):
                judged += await _reap_overdue(connection, claim, judge, overdue)
            judged += await reap_late(connection, limit, judge)
            await connection.execute(SQL["forget_cancels"])
        if judged:
            self.hints.give(Hint.READY)
        return judged

    async def _end_abandoned(self) -> None:
        """A process that is frozen, or a machine that is cut off, holds what it has locked until its session ends.

        The server ends one that is idle in a transaction by itself; not one that has sent a statement without asking
        for its result, which is how the driver prepares each statement before its first use on a connection.
        """
        if monotonic() < self._look_for_abandoned_at:
            return
        self._look_for_abandoned_at = monotonic() + _ABANDONED_EVERY
        for pid, query, since, _ in await self.database.fetch("end_abandoned", ABANDONED_AFTER):
            log.warning(
                "ended the session of process %d: nobody spoke in it for %s, in the middle of %.80r",
                pid,
                format_duration(since),
                query,
            )

    async def _reap_dead(self, connection: Connection, claim: Row, judge: JudgeLost) -> int:
        worker_id, claim_no, run_ids = claim
        rows = await connection.fetch(SQL["lost_runs"], run_ids, worker_id, claim_no)
        if rows:
            lanes = {row["id"]: await self._trial_lane(connection, row["home_lane"], row["lost"] + 1) for row in rows}
            await apply(connection, worker_id, judge(lost_with_worker(rows)), lanes=lanes)
        # A run in the middle of its completion was passed over: the claim stays until that has ended.
        if not await connection.fetchval(SQL["count_claimed"], run_ids, worker_id, claim_no):
            await connection.execute(SQL["delete_claims"], [worker_id], [claim_no])
        return len(rows)

    async def _trial_lane(self, connection: Connection, home_lane: int, lost: int) -> int:
        key = (await self.lane_book.key_within(connection, home_lane)).on_trial(trial_after(lost))
        return (await self.lane_book.ids_within(connection, [key]))[key]


async def _reap_overdue(connection: Connection, claim: Row, judge: JudgeLost, overdue: timedelta) -> int:
    worker_id, claim_no, run_ids = claim
    lost = past_timeout(await connection.fetch(SQL["lost_runs"], run_ids, worker_id, claim_no), overdue)
    if lost:
        await apply(connection, worker_id, judge(lost))
    await connection.execute(SQL["next_deadline"], worker_id, claim_no)
    return len(lost)
