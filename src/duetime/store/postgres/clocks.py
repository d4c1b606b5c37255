"""What nodes have seen of the database's clock, and what becomes of rows from before it was put back."""

from datetime import datetime

from duetime.clock import monotonic
from duetime.store.postgres.database import SQL, affected
from duetime.store.postgres.role import Role
from duetime.store.protocol.service import ClockSeen

_SHIFT_EVERY = 5.0
_SHIFT_SHARE = 0.01
"""It takes this part of the time at the most: it reads all limits, and a tenant may have one for each customer."""


class ClockRole(Role):
    _shift_at = 0.0

    async def clock_seen(self) -> ClockSeen:
        row = await self.database.fetchrow("clock_seen")
        assert row is not None
        return ClockSeen(*row)

    async def keep_clock_seen(self, seen_at: datetime, *, stepped: bool) -> None:
        await self.database.execute("keep_clock_seen", seen_at, stepped)

    async def keep_trusted(self, trusted_at: datetime, seen_at: datetime) -> None:
        await self.database.execute("keep_trusted", trusted_at, seen_at)

    async def shift_back(self) -> None:
        # Each in a transaction of its own: none holds what another waits for.
        async with self.database.connection() as connection:
            await connection.execute(SQL["shift_back"])
            await connection.execute(SQL["shift_cursors"])
            await connection.execute(SQL["shift_limits"])
            advanced = await connection.execute(SQL["advance_lines"])
        self.ready.announce(affected(advanced))

    async def shift_back_in_turn(self) -> None:
        """Now and then, without being asked: no process need have seen the step."""
        began = monotonic()
        if began >= self._shift_at:
            self._shift_at = began + _SHIFT_EVERY
            await self.shift_back()
            self._shift_at = monotonic() + max(_SHIFT_EVERY, (monotonic() - began) / _SHIFT_SHARE)
