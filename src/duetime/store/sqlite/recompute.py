"""Recomputing: cursors whose rules have changed, in steps that are transactions of their own."""

from typing import Any

from duetime.model.calendar import Calendar
from duetime.model.schedule import UnknownHere
from duetime.store.rules.cursor_changes import (
    NO_DAY_LEFT,
    ZONES,
    Recomputed,
    decode_zones,
    encode_zones,
    placed_at,
    reheld,
    rezoned,
    stands_at,
)
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import dates, identity, maybe_stamp, moment, stamp


class RecomputingRole(Role):
    async def report_zones(self, version: str, *, starting: bool) -> bool:
        def work(connection: Connection, now: int) -> bool:
            zones = decode_zones(connection.value("find_meta", {"name": ZONES}))
            zones, due = zones.reported(version, moment(now), starting=starting)
            connection.execute("put_meta", {"name": ZONES, "value": encode_zones(zones)})
            return due

        return await self.database.run(work)

    async def recompute_zones(self, version: str, limit: int) -> int:
        def work(connection: Connection, now: int) -> int:
            zones = decode_zones(connection.value("find_meta", {"name": ZONES}))
            under_way = zones.heading(version, moment(now))
            if under_way is None:
                return 0
            zones = under_way
            found = connection.rows("recurring_after", {"after": zones.after.bytes, "limit": limit})
            for row in _rows(connection, found):
                if (cursor := rezoned(row, moment(now))) is not None:
                    _put(connection, cursor)
            seen = [identity(job_id) for (job_id,) in found]
            connection.execute("put_meta", {"name": ZONES, "value": encode_zones(zones.advanced(seen, limit))})
            return len(seen)

        return await self.database.run(work)

    async def recompute_calendars(self, limit: int) -> int:
        def work(connection: Connection, now: int) -> int:
            after = bytes(16)
            while found := connection.rows("stale_users", {"limit": limit, "after": after}):
                unknown: set[bytes] = set()
                for row in _rows(connection, found):
                    try:
                        _rehold(connection, now, row)
                    except UnknownHere:  # another node may know it
                        unknown.add(row["id"].bytes)
                known = [job_id for (job_id,) in found if job_id not in unknown]
                for job_id in known:
                    connection.execute("refresh_users", {"job_id": job_id})
                if known:
                    return len(known)
                after = found[-1][0]
            return 0

        return await self.database.run(work)


def _rows(connection: Connection, ids: list[tuple[Any, ...]]) -> list[dict[str, Any]]:
    return [row for (job_id,) in ids for row in connection.records("hold_schedules", {"job_id": job_id})]


def _rehold(connection: Connection, now: int, row: dict[str, Any]) -> None:
    of_job = {"job_id": row["id"].bytes}
    calendars = [
        Calendar(name, dates(days), version) for name, days, version in connection.rows("hold_calendars_of", of_job)
    ]
    job = reheld(row, calendars, moment(now))
    if job is None:
        return
    connection.execute("put_schedules", {**of_job, "schedule": job.schedule})
    withdrawn = 0
    if job.withdraws is not None:
        ahead = {"tenant_id": row["tenant_id"], "run_id": job.withdraws.bytes}
        withdrawn = connection.execute("withdraw_run", ahead)
    if job.moved is None:
        return
    _put(connection, placed_at(row, stands_at(row, job), job.moved.last_fire_at, moment(now), withdrawn))
    if job.moved.next_fire_at is None:
        connection.execute("set_aside", {**of_job, "problem": NO_DAY_LEFT})


def _put(connection: Connection, cursor: Recomputed) -> None:
    connection.execute(
        "recompute_cursors",
        {
            "job_id": cursor.job_id.bytes,
            "next_fire_at": stamp(cursor.next_fire_at),
            "scan_at": stamp(cursor.scan_at),
            "last_fire_at": maybe_stamp(cursor.last_fire_at),
            "withdrawn": cursor.withdrawn,
        },
    )
