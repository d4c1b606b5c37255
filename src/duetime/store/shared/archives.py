"""The index of archived history. What reads rows of a day, and makes room for them, differs by dialect."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple
from uuid import UUID

from duetime.model.lane import LaneKey
from duetime.store.protocol.archives import ArchiveDay, ArchivedRow, ArchivePart, DayClaim, TenantDay
from duetime.store.shared.transaction import Row, SharedRole, Transaction

USED = "archive"
"""The row of `meta` that says whether history is archived before it is removed."""
MICROSECONDS_A_DAY = 86_400_000_000
RESTORED = (
    "run_id",
    "job_id",
    "fence",
    "attempt",
    "lost",
    "attempt_state",
    "end_state",
    "failure",
    "due_at",
    "ready_at",
    "started_at",
    "first_started_at",
    "finished_at",
    "worker_id",
    "timeout_ms",
    "args",
    "options",
    "result",
    "logs",
    "error",
)
_FORGOTTEN_AFTER = timedelta(days=1)


class DayCount(NamedTuple):
    rows: int
    mark: int | None
    """In SQLite, the last row of history at the time of the count."""


class SharedArchives(SharedRole, ABC):
    @abstractmethod
    async def count_day(self, day: int) -> DayCount: ...

    @abstractmethod
    async def make_room(self, day: int) -> None:
        """Prepare the table for rows of a day that are restored."""

    async def before_restore(self, transaction: Transaction) -> None:
        """What was counted of history (`usage_counts.py`) must not include restored rows twice."""

    async def after_restore(self, transaction: Transaction) -> None:
        """Called when the rows have been restored, for the same purpose."""

    async def use_archive(self, *, used: bool) -> None:
        await self.transactions.execute("put_meta", name=USED, value="on" if used else "off")

    async def uses_archive(self) -> bool:
        return bool(await self.transactions.value("read_meta", name=USED) == "on")

    async def claim_day(self, day: int, claimant: UUID, lease: timedelta, seen_at: datetime) -> DayClaim | None:
        async def work(transaction: Transaction) -> DayClaim | None:
            now = await transaction.now()
            wanted = {"day": day, "claimant": claimant, "until": now + lease, "at": now, "seen_at": seen_at}
            pass_no = await transaction.value("claim_archive_day", **wanted)
            return None if pass_no is None else DayClaim(day, claimant, pass_no)

        return await self.transactions.run(work)

    async def renew_day(self, claim: DayClaim, lease: timedelta) -> bool:
        async def work(transaction: Transaction) -> bool:
            until = await transaction.now() + lease
            return await transaction.execute("renew_archive_day", **_claim(claim), until=until) > 0

        return await self.transactions.run(work)

    async def lanes_of_rows(self, lane_ids: Sequence[int]) -> dict[int, LaneKey]:
        rows = await self.transactions.rows("lanes_of_rows", ids=list(lane_ids))
        return {row["lane_id"]: LaneKey(row["tenant_id"], row["queue"], row["tier"], row["task"]) for row in rows}

    async def add_parts(self, claim: DayClaim, parts: Sequence[ArchivePart]) -> bool:
        async def work(transaction: Transaction) -> bool:
            if await transaction.row("hold_archive_day", **_claim(claim)) is None:
                return False
            await transaction.many("add_archive_parts", [_values(part) for part in parts])
            return True

        return await self.transactions.run(work)

    async def finish_day(self, claim: DayClaim, rows: int) -> bool:
        counted = await self.count_day(claim.day)
        if counted.rows != rows:
            return False

        async def work(transaction: Transaction) -> bool:
            given = {**_claim(claim), "at": await transaction.now(), "rows": rows, "mark": counted.mark}
            return await transaction.execute("finish_archive_day", **given) > 0

        return await self.transactions.run(work)

    async def give_up_day(self, claim: DayClaim, problem: str) -> None:
        await self.transactions.execute("give_up_archive_day", **_claim(claim), problem=problem)

    async def release_day(self, day: int, pass_no: int) -> bool:
        async def work(transaction: Transaction) -> bool:
            given = {"day": day, "pass_no": pass_no, "at": await transaction.now()}
            return await transaction.execute("release_archive_day", **given) > 0

        return await self.transactions.run(work)

    async def reopen_day(self, day: int, bad: Sequence[ArchivePart], problem: str) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.execute("reopen_archive_day", day=day, problem=problem)
            await transaction.many("forget_archive_parts", [_name(part) for part in bad])

        await self.transactions.run(work)

    async def archive_days(self) -> list[ArchiveDay]:
        names = ArchiveDay.__struct_fields__
        return [ArchiveDay(*(row[name] for name in names)) for row in await self.transactions.rows("all_archive_days")]

    async def parts_of_day(self, day: int, tenant_id: int | None = None) -> list[ArchivePart]:
        return [
            _part(row) for row in await self.transactions.rows("archive_parts_of_day", day=day, tenant_id=tenant_id)
        ]

    async def parts_between(
        self, tenant_id: int, lowest: UUID, before: UUID, limit: int, *, day: int | None = None
    ) -> list[ArchivePart]:
        wanted = {"tenant_id": tenant_id, "lowest": lowest, "before": before, "limit": limit, "day": day}
        return [
            _part(row) for row in await self.transactions.reading(tenant_id).rows("archive_parts_between", **wanted)
        ]

    async def tenant_days(self, tenant_id: int | None, before: int, limit: int) -> list[TenantDay]:
        wanted = {"tenant_id": tenant_id, "before": before, "limit": limit}
        names = ("tenant_id", "day", "rows", "bytes", "count", "expires")
        rows = await self.transactions.rows("archived_tenant_days", **wanted)
        return [TenantDay(*(row[name] for name in names)) for row in rows]

    async def expired_parts(self, day: int, limit: int) -> list[ArchivePart]:
        return [_part(row) for row in await self.transactions.rows("expired_archive_parts", day=day, limit=limit)]

    async def forget_parts(self, parts: Sequence[ArchivePart]) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.many("forget_archive_parts", [_name(part) for part in parts])
            await transaction.execute("forget_archive_days", before=await transaction.now() - _FORGOTTEN_AFTER)

        await self.transactions.run(work)

    async def keys_in_archive(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for row in await self.transactions.rows("keys_in_archive"):
            for name in row["name"].split(","):
                counts[name] = counts.get(name, 0) + row["count"]
        return counts

    async def begin_restore(self, day: int, until: datetime) -> bool:
        if not await self.transactions.execute("note_restore", day=day, until=until):
            return False
        await self.make_room(day)
        return True

    async def restore_rows(self, tenant_id: int, rows: Sequence[ArchivedRow]) -> int:
        async def work(transaction: Transaction) -> int:
            lanes = await self.run_maker.lanes(transaction, {row.lane for row in rows})
            fields = (*RESTORED, "lane_id", "tenant_id")
            table = [[*(row.values[name] for name in RESTORED), lanes[row.lane], tenant_id] for row in rows]
            await self.before_restore(transaction)
            restored = len(await transaction.each("restore_history", fields, table))
            await self.after_restore(transaction)
            return restored

        return await self.transactions.run(work)


def _claim(claim: DayClaim) -> dict[str, Any]:
    return {"day": claim.day, "claimant": claim.claimant, "pass_no": claim.pass_no}


def _name(part: ArchivePart) -> dict[str, Any]:
    return {"tenant_id": part.tenant_id, "day": part.day, "name": part.name}


def _values(part: ArchivePart) -> dict[str, Any]:
    return {name: getattr(part, name) for name in ArchivePart.__struct_fields__} | {"keys": ",".join(part.keys)}


def _part(row: Row) -> ArchivePart:
    values = {name: row[name] for name in ArchivePart.__struct_fields__}
    return ArchivePart(**(values | {"keys": tuple(filter(None, row["keys"].split(",")))}))
