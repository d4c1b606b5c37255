"""Recomputing: cursors whose rules have changed, in steps that are transactions of their own."""

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from uuid import UUID

from duetime.model.calendar import Calendar
from duetime.model.firing import SetAside
from duetime.model.schedule import UnknownHere
from duetime.store.postgres.database import SQL, Connection, Row, affected, columns
from duetime.store.postgres.role import Role
from duetime.store.rules.cursor_changes import (
    NO_DAY_LEFT,
    ZONES,
    Recomputed,
    Reheld,
    decode_zones,
    encode_zones,
    placed_at,
    reheld,
    rezoned,
    stands_at,
)


class RecomputingRole(Role):
    async def report_zones(self, version: str, *, starting: bool) -> bool:
        async with self.database.transaction() as connection:
            zones = decode_zones(await connection.fetchval(SQL["find_meta"], ZONES))
            zones, due = zones.reported(version, await connection.fetchval(SQL["clock"]), starting=starting)
            await connection.execute(SQL["put_meta"], ZONES, encode_zones(zones))
        return due

    async def recompute_zones(self, version: str, limit: int) -> int:
        async with self.database.transaction() as connection:
            zones = decode_zones(await connection.fetchval(SQL["find_meta"], ZONES))
            under_way = zones.heading(version, await connection.fetchval(SQL["clock"]))
            if under_way is None:
                return 0
            zones = under_way
            ids = [row[0] for row in await connection.fetch(SQL["recurring_after"], zones.after, limit)]
            if ids:
                rows = await _hold(connection, ids)
                now: datetime = await connection.fetchval(SQL["clock"])
                found = await asyncio.to_thread(lambda: [rezoned(row, now) for row in rows])
                await _put(connection, [each for each in found if each is not None])
            await connection.execute(SQL["put_meta"], ZONES, encode_zones(zones.advanced(ids, limit)))
        return len(ids)

    async def recompute_calendars(self, limit: int) -> int:
        after = UUID(int=0)
        while True:
            async with self.database.transaction() as connection:
                ids = [row[0] for row in await connection.fetch(SQL["stale_users"], limit, after)]
                if not ids:
                    return 0
                rows = await _hold(connection, ids)
                calendars = await _calendars_of(connection, ids)
                now: datetime = await connection.fetchval(SQL["clock"])
                # On a thread: a job may leave out ten thousand days.
                decided, unknown = await asyncio.to_thread(_reheld, rows, calendars, now)
                await _rehold(connection, decided, now)
                known = [each for each in ids if each not in unknown]
                await connection.execute(SQL["refresh_users"], known)
            if known:
                return len(known)
            after = ids[-1]


def _reheld(
    rows: Sequence[Row], calendars: Mapping[int, Sequence[Calendar]], now: datetime
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


async def _hold(connection: Connection, ids: Sequence[UUID]) -> list[Row]:
    # The cursors first: a scanner that is firing one of these finishes before we look at them.
    await connection.execute(SQL["hold_cursors"], ids)
    return await connection.fetch(SQL["hold_schedules"], ids)


async def _calendars_of(connection: Connection, ids: Sequence[UUID]) -> dict[int, list[Calendar]]:
    """The calendars that these jobs use, by tenant, held against change."""
    found: dict[int, list[Calendar]] = defaultdict(list)
    for row in await connection.fetch(SQL["hold_calendars_of"], ids):
        found[row["tenant_id"]].append(Calendar(row["name"], tuple(row["dates"]), row["version"]))
    return found


async def _rehold(connection: Connection, decided: Sequence[tuple[Row, Reheld]], now: datetime) -> None:
    cursors, aside = [], []
    for row, job in decided:
        withdrawn = 0
        if job.withdraws is not None:
            withdrawn = affected(await connection.execute(SQL["withdraw_run"], row["tenant_id"], job.withdraws))
        if job.moved is None:
            continue
        if job.moved.next_fire_at is None:
            aside.append(SetAside(job.job_id, NO_DAY_LEFT))
        cursors.append(placed_at(row, stands_at(row, job), job.moved.last_fire_at, now, withdrawn))
    schedules = [(job.job_id, job.schedule) for _, job in decided]
    await connection.execute(SQL["put_schedules"], *columns(schedules, 2))
    await _put(connection, cursors)
    if aside:
        await connection.execute(SQL["set_aside"], *columns([(item.job_id, item.problem) for item in aside], 2))


async def _put(connection: Connection, cursors: Sequence[Recomputed]) -> None:
    if cursors:
        await connection.execute(SQL["recompute_cursors"], *columns(cursors, 5))
