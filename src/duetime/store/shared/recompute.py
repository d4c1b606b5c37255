"""Recomputing: cursors whose rules have changed, in steps that are transactions of their own."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.calendar import Calendar
from duetime.model.schedule import UnknownHere
from duetime.store.rules.cursor_changes import (
    NO_DAY_LEFT,
    ZONES,
    Recomputed,
    Reheld,
    Zones,
    decode_zones,
    encode_zones,
    placed_at,
    reheld,
    rezoned,
    stands_at,
)
from duetime.store.shared.service_rows import FIRST_ID
from duetime.store.shared.transaction import Row, Rows, SharedRole, Transaction

Decided = Sequence[tuple[Row, Reheld]]


class RecomputingRole(SharedRole):
    async def report_zones(self, version: str, *, starting: bool) -> bool:
        async def work(transaction: Transaction) -> bool:
            zones = await _zones(transaction)
            zones, due = zones.reported(version, await transaction.now(), starting=starting)
            await _put_zones(transaction, zones)
            return due

        return await self.transactions.run(work)

    async def recompute_zones(self, version: str, limit: int) -> int:
        async def work(transaction: Transaction) -> int:
            zones = (await _zones(transaction)).heading(version, await transaction.now())
            if zones is None:
                return 0
            found = await transaction.rows("recurring_after", after=zones.after, limit=limit)
            ids = [row["id"] for row in found]
            if ids:
                rows = await _hold(transaction, ids)
                now = await transaction.now()
                moved = await transaction.compute(lambda: [rezoned(row, now) for row in rows])
                await _put(transaction, [cursor for cursor in moved if cursor is not None])
            await _put_zones(transaction, zones.advanced(ids, limit))
            return len(ids)

        return await self.transactions.run(work)

    async def recompute_calendars(self, limit: int) -> int:
        after = FIRST_ID

        async def work(transaction: Transaction) -> tuple[list[UUID], int]:
            found = await transaction.rows("stale_users", after=after, limit=limit)
            ids = [row["job_id"] for row in found]
            if not ids:
                return ids, 0
            rows = await _hold(transaction, ids)
            calendars = await _calendars_of(transaction, ids)
            now = await transaction.now()
            # A job may leave out ten thousand days.
            decided, unknown = await transaction.compute(_reheld, rows, calendars, now)
            await _rehold(transaction, decided, now)
            known = [each for each in ids if each not in unknown]
            await transaction.execute("refresh_users", ids=known)
            return ids, len(known)

        while True:
            ids, known = await self.transactions.run(work)
            if known or not ids:
                return known
            after = ids[-1]  # another node may know what these name


async def _zones(transaction: Transaction) -> Zones:
    return decode_zones(await transaction.value("find_meta", name=ZONES))


async def _put_zones(transaction: Transaction, zones: Zones) -> None:
    await transaction.execute("put_meta", name=ZONES, value=encode_zones(zones))


def _reheld(
    rows: Rows, calendars: Mapping[int, Sequence[Calendar]], now: datetime
) -> tuple[list[tuple[Row, Reheld]], set[UUID]]:
    """What becomes of these jobs, and which of them are left to other nodes."""
    decided, unknown = [], set()
    for row in rows:
        try:
            found = reheld(row, calendars[row["tenant_id"]], now)
        except UnknownHere:
            unknown.add(row["id"])
            continue
        if found is not None:
            decided.append((row, found))
    return decided, unknown


async def _hold(transaction: Transaction, ids: Sequence[UUID]) -> Rows:
    # The cursors first: a scanner that is firing one of these finishes before we look at them.
    await transaction.lock("hold_cursors", ids=ids)
    return await transaction.rows("hold_schedules", ids=ids)


async def _calendars_of(transaction: Transaction, ids: Sequence[UUID]) -> dict[int, list[Calendar]]:
    """The calendars that these jobs use, by tenant, held against change."""
    found: dict[int, list[Calendar]] = defaultdict(list)
    for row in await transaction.rows("hold_calendars_of", ids=ids):
        found[row["tenant_id"]].append(Calendar(row["name"], tuple(row["dates"]), row["version"]))
    return found


async def _rehold(transaction: Transaction, decided: Decided, now: datetime) -> None:
    cursors, aside = [], []
    for row, job in decided:
        withdrawn = 0
        if job.withdraws is not None:
            of_run = {"tenant_id": row["tenant_id"], "run_id": job.withdraws}
            withdrawn = await transaction.execute("withdraw_run", **of_run)
        if job.moved is None:
            continue
        if job.moved.next_fire_at is None:
            aside.append((job.job_id, NO_DAY_LEFT))
        cursors.append(placed_at(row, stands_at(row, job), job.moved.last_fire_at, now, withdrawn))
    await transaction.many("put_schedule", [{"job_id": job.job_id, "schedule": job.schedule} for _, job in decided])
    await _put(transaction, cursors)
    await transaction.put("set_aside", ("job_id", "problem"), aside)


async def _put(transaction: Transaction, cursors: Sequence[Recomputed]) -> None:
    await transaction.many("recompute_cursor", [cursor._asdict() for cursor in cursors])
