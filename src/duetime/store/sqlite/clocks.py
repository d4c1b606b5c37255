"""What was seen of the clock, and what becomes of rows from before it was put back."""

from datetime import datetime

from duetime.clock import monotonic
from duetime.store.protocol.service import ClockSeen
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import maybe_moment, moment, stamp

_SHIFT_EVERY = 5.0
_SHIFT_SHARE = 0.01
"""It takes this part of the time at the most: it reads all limits, and a tenant may have one for each customer."""


class ClockRole(Role):
    _shift_at = 0.0

    async def clock_seen(self) -> ClockSeen:
        def work(connection: Connection, now: int) -> ClockSeen:
            (seen,) = connection.rows("clock_seen", {})
            return ClockSeen(moment(now), *(maybe_moment(each) for each in seen))

        return await self.database.run(work)

    async def keep_clock_seen(self, seen_at: datetime, *, stepped: bool) -> None:
        this = {"seen": stamp(seen_at), "stepped": stepped}
        await self.database.run(lambda connection, _: connection.execute("keep_clock_seen", this))

    async def keep_trusted(self, trusted_at: datetime, seen_at: datetime) -> None:
        this = {"trusted": stamp(trusted_at), "seen": stamp(seen_at)}
        await self.database.run(lambda connection, _: connection.execute("keep_trusted", this))

    async def shift_back(self) -> None:
        def work(connection: Connection, now: int) -> int:
            connection.execute("shift_back", {"now": now})
            connection.execute("shift_cursors", {"now": now})
            connection.execute("shift_limits", {"now": now})
            return connection.execute("advance_lines", {"now": now})

        self.ready.announce(await self.database.run(work))

    async def shift_back_in_turn(self) -> None:
        """Now and then, without being asked: no process need have seen the step."""
        began = monotonic()
        if began >= self._shift_at:
            self._shift_at = began + _SHIFT_EVERY
            await self.shift_back()
            self._shift_at = monotonic() + max(_SHIFT_EVERY, (monotonic() - began) / _SHIFT_SHARE)
