"""Reaping: runs whose worker is gone are freed, judged one by one, and counted as lost."""

from datetime import timedelta
from typing import Any

from duetime.model.lane import trial_after
from duetime.store.losses import lost_with_worker, past_timeout
from duetime.store.protocol import Hint
from duetime.store.roles import JudgeLost
from duetime.store.sqlite.completing import apply
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.handing_over import reap_late
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, microseconds, places


class ReapingRole(Role):
    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        this = {"limit": limit, "overdue": microseconds(overdue)}

        def work(connection: Connection, now: int) -> int:
            judged = 0
            # Its row goes first: a worker that was reaped cannot renew, however late it comes to that.
            connection.execute("forget_dead_workers", {"now": now})
            for claim in connection.rows("dead_claims", {**this, "now": now}):
                judged += self._reap_dead(connection, _claim(claim, now), judge)
            for claim in connection.rows("overdue_claims", {**this, "now": now}):
                judged += _reap_overdue(connection, _claim(claim, now), judge, overdue)
            judged += reap_late(connection, now, limit, judge)
            connection.execute("forget_cancels", {})
            return judged

        judged = await self.database.run(work)
        if judged:
            self.hints.give(Hint.READY)
        return judged

    def _reap_dead(self, connection: Connection, claim: dict[str, Any], judge: JudgeLost) -> int:
        rows = connection.records("lost_runs", claim)
        if rows:
            lanes = {row["id"]: self._trial_lane(connection, row["home_lane"], row["lost"] + 1) for row in rows}
            worker_id = identity(claim["worker_id"])
            apply(connection, claim["now"], worker_id, judge(lost_with_worker(rows)), lanes)
        if not connection.value("count_claimed", claim):
            connection.execute("delete_claims", claim)
        return len(rows)

    def _trial_lane(self, connection: Connection, home_lane: int, lost: int) -> int:
        key = self.lane_book.key(connection, home_lane).on_trial(trial_after(lost))
        return self.lane_book.ids(connection, [key])[key]


def _reap_overdue(connection: Connection, claim: dict[str, Any], judge: JudgeLost, overdue: timedelta) -> int:
    lost = past_timeout(connection.records("lost_runs", claim), overdue)
    if lost:
        apply(connection, claim["now"], identity(claim["worker_id"]), judge(lost))
    connection.execute("next_deadline", claim)
    return len(lost)


def _claim(row: tuple[Any, ...], now: int) -> dict[str, Any]:
    worker_id, claim_no, ids = row
    return {"worker_id": worker_id, "claim_no": claim_no, "ids": ids, "places": places(ids), "now": now}
