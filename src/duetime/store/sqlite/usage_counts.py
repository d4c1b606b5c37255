"""Usage by day, counted from history row by row in the order in which they were written. Sums and place are one
transaction, so every row is counted once."""

from collections.abc import Container
from datetime import UTC, datetime

from duetime.store.shared.archives import MICROSECONDS_A_DAY
from duetime.store.shared.usage_counts import SETTLED, SharedUsageCounts
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import maybe_moment, stamp

_AT_ONCE = 2000


class UsageCountRole(Role, SharedUsageCounts):
    async def count_usage(self, now: datetime) -> bool:
        return await self.database.run(count_part)

    async def final_days(self, first: int, last: int) -> Container[int]:
        until = await self.counted_until()
        return range(0 if until is None else stamp(until - SETTLED) // MICROSECONDS_A_DAY)

    async def counted_until(self) -> datetime | None:
        found: int = await self.database.run(lambda connection, _: connection.rows("usage_place", {"batch": 1})[0][1])
        at = maybe_moment(found or None)
        return None if at is None else at.astimezone(UTC)

    async def forget_days(self, before: int) -> None:
        """Nothing is kept by day but the figures."""


def count_part(connection: Connection, now: int) -> bool:
    """Count some rows; returns whether there were any."""
    ((row, _, last),) = connection.rows("usage_place", {"batch": _AT_ONCE})
    if last is not None:
        connection.execute("count_usage", {"after": row, "until": last})
        return True
    connection.execute("end_usage_count", {"now": now})
    return False


def count_all(connection: Connection, now: int) -> None:
    """Count to the end of history."""
    while count_part(connection, now):
        pass
