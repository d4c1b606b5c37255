"""What a store tells about the last hour, day and week."""

from datetime import datetime, timedelta
from typing import Protocol

from duetime.model.trends import Pace


class Trends(Protocol):
    async def count_trends(self, now: datetime) -> int:
        """Count what ended in the last minutes, of all tenants, as far as no node has counted it; returns how many
        minutes of tenants were added. Reads the newest part of history, up to a bound."""

    async def trends(self, tenant_id: int, step: timedelta, since: datetime) -> list[tuple[datetime, Pace]]:
        """The minutes or hours since a moment in which something ended, in order."""
