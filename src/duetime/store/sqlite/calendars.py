"""Calendars: days with a name."""

from collections.abc import Sequence
from datetime import date
from typing import Any
from uuid import UUID

import msgspec

from duetime.errors import CalendarInUse, NotFound
from duetime.model.calendar import Calendar
from duetime.store.rules.cursor_changes import BATCH
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.recompute import RecomputingRole, read_dates
from duetime.store.sqlite.values import listed


class CalendarRole(RecomputingRole):
    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        calendar = {"tenant_id": tenant_id, "name": name, "dates": msgspec.json.encode(list(dates)).decode()}
        await self.database.run(lambda connection, _: connection.execute("put_calendar", calendar))
        # In steps, so that nobody waits long; what is left if we die in between is found by the next node.
        while await self.recompute_calendars(BATCH):
            pass
        return await self.calendar(tenant_id, name)

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        return await self.database.run(lambda connection, _: _find(connection, tenant_id, name))

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        wanted = {"tenant_id": tenant_id, "name": None}
        rows = await self.database.run(lambda connection, _: connection.rows("find_calendars", wanted))
        return [_calendar(row) for row in rows]

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        def work(connection: Connection, _now: int) -> None:
            calendar = _find(connection, tenant_id, name)
            if calendar.jobs:
                raise CalendarInUse(
                    f"{calendar.jobs} jobs leave out the days of {name!r}",
                    field="calendar",
                    remedy="edit or cancel them first, or set it to no dates",
                )
            connection.execute("delete_calendar", {"tenant_id": tenant_id, "name": name})

        await self.database.run(work)


def hold_calendars(connection: Connection, tenant_id: int, names: Sequence[str]) -> list[Calendar]:
    """Those of these calendars that exist."""
    if not names:
        return []
    rows = connection.rows("hold_calendars", {"tenant_id": tenant_id, "names": listed(names)})
    return [Calendar(name, read_dates(dates), version) for name, dates, version in rows]


def use_calendars(connection: Connection, tenant_id: int, job_id: UUID, calendars: Sequence[Calendar]) -> None:
    """Remember which calendars a job uses."""
    used = {
        "names": listed([calendar.name for calendar in calendars]),
        "versions": listed([calendar.version for calendar in calendars]),
    }
    connection.execute("use_calendars", {"tenant_id": tenant_id, "job_id": job_id.bytes, **used})


def _find(connection: Connection, tenant_id: int, name: str) -> Calendar:
    row = connection.row("find_calendars", {"tenant_id": tenant_id, "name": name})
    if row is None:
        raise NotFound(f"there is no calendar {name!r}", field="calendar")
    return _calendar(row)


def _calendar(row: tuple[Any, ...]) -> Calendar:
    name, dates, version, jobs = row
    return Calendar(name, read_dates(dates), version, jobs)
