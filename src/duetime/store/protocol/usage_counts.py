"""What tenants have used. It is counted from history by a loop, so that no run pays for it, and stays when history is
removed: what is removed was counted before."""

from datetime import date, datetime
from typing import Protocol

from duetime.model.usage import Usage


class UsageCounts(Protocol):
    async def count_usage(self, now: datetime) -> bool:
        """Count what has ended since the last call, or as much of it as is done in a moment; returns whether there is
        more. Several nodes may call it at once: nothing is counted twice."""

    async def usage_of(self, tenant_id: int, first: date, last: date, *, by_queue: bool) -> list[Usage]:
        """What a tenant has used on these days, oldest first."""

    async def usage_of_all(self, first: date, last: date, after: tuple[int, int], limit: int) -> list[Usage]:
        """What tenants have used on these days, by tenant and day, above a tenant's number and day (from 1970)."""

    async def counted_until(self) -> datetime | None:
        """When history was last counted."""

    async def prune_usage(self, before: date) -> int:
        """Forget days; returns how many rows."""
