"""Reaping, in one transaction with a step of the sweep."""

from datetime import timedelta

from duetime.store.protocol.service import JudgeLost
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.hand_over import Complete
from duetime.store.shared.reaping import reap_claims
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Context, Role
from duetime.store.sqlite.sweep import SweepRole
from duetime.store.sqlite.transaction import SqliteTransaction, at_once


class ReapingRole(Role):
    def __init__(self, context: Context, clocks: ClockRole, sweep: SweepRole, apply_judged: Complete) -> None:
        super().__init__(context)
        self._clocks = clocks
        self._sweep = sweep
        self._apply_judged = apply_judged

    async def reap(self, limit: int, judge: JudgeLost, overdue: timedelta) -> int:
        def work(connection: Connection, now: int) -> int:
            self._sweep.sweep_within(connection, now, judge)
            transaction = SqliteTransaction(connection, now)
            reaping = reap_claims(transaction, self.run_maker, self._apply_judged, limit, judge, overdue)
            return at_once(reaping).judged

        await self._clocks.shift_back_in_turn()
        judged = await self.database.run(work)
        self.ready.announce(judged)
        return judged
