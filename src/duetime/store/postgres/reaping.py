"""Reaping, and the end of sessions whose client is gone."""

import logging
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import MappingProxyType

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.store.postgres.database import DEADLINE, MARK
from duetime.store.postgres.role import Context, Role
from duetime.store.postgres.suspects import SuspectsRole
from duetime.store.postgres.sweep import SweepRole
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.protocol.service import JudgeLost
from duetime.store.shared.clocks import ClockRole
from duetime.store.shared.hand_over import Complete
from duetime.store.shared.reaping import reap_claims

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
        await self._end_abandoned()
        await self._clocks.shift_back_in_turn()
        await self._sweep.sweep(judge)
        async with self.database.transaction() as connection:
            transaction = PostgresTransaction(connection)
            reaped = await reap_claims(transaction, self.run_maker, self._apply_judged, limit, judge, overdue)
        if reaped.has_suspects:
            self._suspects.note()
        await self.parking.free(reaped.freed)
        self.ready.announce(reaped.judged)
        return reaped.judged

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
