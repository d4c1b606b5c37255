"""Reaping: runs whose worker is gone are freed, judged one by one, and counted as lost."""

from datetime import timedelta

from duetime.model.lane import LaneKey, trial_after
from duetime.model.worker import Lost
from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import SQL, Connection, Row
from duetime.store.postgres.role import Role
from duetime.store.protocol import Hint, JudgeLost

_KEEP_DEAD_WORKERS = timedelta(hours=1)


class ReapingRole(Role):
    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        judged = 0
        async with self.database.transaction() as connection:
            for claim in await connection.fetch(SQL["dead_claims"], limit):
                judged += await self._reap_claim(connection, claim, judge, timedelta(0), dead=True)
            for claim in await connection.fetch(SQL["overdue_claims"], limit, overdue):
                judged += await self._reap_claim(connection, claim, judge, overdue, dead=False)
            await connection.execute(SQL["forget_dead_workers"], _KEEP_DEAD_WORKERS)
            await connection.execute(SQL["forget_cancels"])
        if judged:
            self.hints.give(Hint.READY)
        return judged

    async def _reap_claim(
        self, connection: Connection, claim: Row, judge: JudgeLost, overdue: timedelta, *, dead: bool
    ) -> int:
        worker_id, claim_no, run_ids = claim
        rows = await connection.fetch(SQL["lost_runs"], run_ids, worker_id, claim_no)
        lost, lanes = [], {}
        for row in rows:
            timed_out = row["timeout_ms"] is not None and row["ran_for"] > overdue + timedelta(
                milliseconds=row["timeout_ms"]
            )
            if dead or timed_out:
                lost.append(
                    Lost(
                        row["id"],
                        row["fence"],
                        row["attempt"],
                        row["lost"],
                        row["options"],
                        row["cancel_requested"],
                        not dead,
                        row["ran_for"],
                    )
                )
                if dead:
                    lanes[row["id"]] = await self._trial_lane(row["home_lane"], row["lost"] + 1)
        if lost:
            await apply(connection, worker_id, judge(lost), lanes=lanes)
        if dead:
            if not await connection.fetchval(SQL["count_claimed"], run_ids, worker_id, claim_no):
                await connection.execute(SQL["delete_claims"], [worker_id], [claim_no])
        else:
            await connection.execute(SQL["next_deadline"], worker_id, claim_no)
        return len(lost)

    async def _trial_lane(self, home_lane: int, lost: int) -> int:
        home = await self.lane_book.key(home_lane)
        key = LaneKey(home.tenant_id, home.queue, home.tier, home.task, trial_after(lost))
        return (await self.lane_book.ids([key]))[key]
