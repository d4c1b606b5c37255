"""Reaping: the runs of a lost worker are freed; `judge` decides what becomes of each."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from duetime.model.lane import LaneKey
from duetime.model.suspicion import Loss
from duetime.store.protocol.service import JudgeLost
from duetime.store.rules.lost_runs import lost_with_worker, not_held, past_timeout
from duetime.store.rules.strays import ClaimStanding
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.hand_over import Complete, reap_late
from duetime.store.shared.suspects import suspect, tend_suspects
from duetime.store.sqlite.completing import apply
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.sweep import SweepRole
from duetime.store.sqlite.transaction import SqliteTransaction, at_once
from duetime.store.sqlite.values import identity, microseconds, places


class ReapingRole(Role):
    def __init__(self, context: Context, clocks: ClockRole, sweep: SweepRole, apply_judged: Complete) -> None:
        super().__init__(context)
        self._clocks = clocks
        self._sweep = sweep
        self._apply_judged = apply_judged

    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        this = {"limit": limit, "overdue": microseconds(overdue)}

        def work(connection: Connection, now: int) -> int:
            judged = 0
            # The worker's row is deleted first, so that a reaped worker can never renew.
            connection.execute("forget_dead_workers", {"now": now})
            self._sweep.sweep_within(connection, now, judge)
            judged += self._reap_dead(connection, now, limit, judge)
            for claim in connection.rows("overdue_claims", {**this, "now": now}):
                judged += _reap_overdue(connection, _claim(claim, now), judge, overdue)
            transaction = SqliteTransaction(connection, now)
            judged += at_once(reap_late(transaction, self._apply_judged, limit, judge))[0]
            connection.execute("forget_cancels", {})
            at_once(tend_suspects(transaction))
            return judged

        await self._clocks.shift_back_in_turn()
        judged = await self.database.run(work)
        self.ready.announce(judged)
        return judged

    def _reap_dead(self, connection: Connection, now: int, limit: int, judge: JudgeLost) -> int:
        dead = connection.rows("dead_claims", {"now": now, "limit": limit})
        claims = [(_claim(claim, now), standing) for *claim, standing in dead]
        lost = [connection.records("lost_runs", claim) for claim, _ in claims]
        losses = [
            Loss(
                row["id"],
                identity(claim["worker_id"]),
                row["job_id"],
                self._home(connection, row["home_lane"]),
                row["lost"] + 1,
            )
            for (claim, standing), rows in zip(claims, lost, strict=True)
            # A run that a live worker does not hold has killed no process.
            for row in (rows if standing != ClaimStanding.NOT_HELD else ())
        ]
        lanes = at_once(suspect(SqliteTransaction(connection, now), self.run_maker, losses))
        for (claim, standing), rows in zip(claims, lost, strict=True):
            if rows:
                found = not_held(rows) if standing == ClaimStanding.NOT_HELD else lost_with_worker(rows)
                apply(connection, now, identity(claim["worker_id"]), judge(found), lanes)
            if not connection.value("count_claimed", claim):
                connection.execute("delete_claims", claim)
        return sum(map(len, lost))

    def _home(self, connection: Connection, lane_id: int) -> LaneKey:
        home = self.lane_book.key(connection, lane_id)
        assert home is not None  # a lane with runs is never removed
        return home


def _reap_overdue(connection: Connection, claim: dict[str, Any], judge: JudgeLost, overdue: timedelta) -> int:
    lost = past_timeout(connection.records("lost_runs", claim), overdue)
    if lost:
        apply(connection, claim["now"], identity(claim["worker_id"]), judge(lost))
    connection.execute("next_deadline", claim)
    return len(lost)


def _claim(row: Sequence[Any], now: int) -> dict[str, Any]:
    worker_id, claim_no, ids = row
    return {"worker_id": worker_id, "claim_no": claim_no, "ids": ids, "places": places(ids), "now": now}
