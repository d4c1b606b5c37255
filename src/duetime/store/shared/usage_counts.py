"""What tenants have used, as it was counted."""

from abc import ABC, abstractmethod
from collections.abc import Container
from datetime import date, timedelta

import msgspec

from duetime.model.microseconds import EPOCH
from duetime.model.usage import Usage
from duetime.store.shared.transaction import Row, SharedRole

SETTLED = timedelta(minutes=15)
"""How long after its end a day is counted for the last time."""
_FIRST = EPOCH.date()
_SUMS = ("runs", "failed", "attempts", "seconds", "bytes")


class SharedUsageCounts(SharedRole, ABC):
    @abstractmethod
    async def final_days(self, first: int, last: int) -> Container[int]:
        """The days that are counted for good."""

    @abstractmethod
    async def forget_days(self, before: int) -> None:
        """Forget which days were counted."""

    async def prune_usage(self, before: date) -> int:
        await self.forget_days(_number(before))
        return await self.transactions.execute("prune_usage", before=_number(before))

    async def usage_of(self, tenant_id: int, first: date, last: date, *, by_queue: bool) -> list[Usage]:
        days = _number(first), _number(last)
        final = await self.final_days(*days)
        wanted = {"tenant_id": tenant_id, "first": days[0], "last": days[1]}
        rows = await self.transactions.rows("usage_of_days", **wanted)
        found = [_usage(row, final, row["queue"]) for row in rows]
        if by_queue:
            return found
        of_days: dict[date, Usage] = {}
        for each in found:
            of_days[each.day] = _sum(of_days[each.day], each) if each.day in of_days else _sum(each, None)
        return list(of_days.values())

    async def usage_of_all(self, first: date, last: date, after: tuple[int, int], limit: int) -> list[Usage]:
        days = _number(first), _number(last)
        final = await self.final_days(*days)
        wanted = {"first": days[0], "last": days[1], "tenant_id": after[0], "after": after[1], "limit": limit}
        return [_usage(row, final, None) for row in await self.transactions.rows("usage_of_tenants", **wanted)]


def _number(day: date) -> int:
    return (day - _FIRST).days


def _usage(row: Row, final: Container[int], queue: str | None) -> Usage:
    return Usage(
        tenant_id=row["tenant_id"],
        day=_FIRST + timedelta(days=row["day"]),
        queue=queue,
        runs=row["runs"],
        failed=row["failed"],
        attempts=row["attempts"],
        seconds=row["run_us"] / 1e6,
        bytes=row["bytes"],
        final=row["day"] in final,
    )


def _sum(one: Usage, other: Usage | None) -> Usage:
    """Of all queues together."""
    sums = {name: getattr(one, name) + getattr(other, name, 0) for name in _SUMS}
    return msgspec.structs.replace(one, queue=None, **sums)
