"""Calendars: days with a name. Whoever uses one holds it until its own transaction is over."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from duetime.errors import CalendarInUse, NotFound
from duetime.model.calendar import Calendar
from duetime.store.postgres.database import SQL, Connection
from duetime.store.postgres.recompute import RecomputingRole
from duetime.store.rules.cursor_changes import BATCH


class CalendarRole(RecomputingRole):
    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        async with self.database.acting_for(tenant_id) as connection:
            await connection.execute(SQL["put_calendar"], tenant_id, name, list(dates))
        # In steps, so that nobody waits long; what is left if we die in between is found by the next node.
        while await self.recompute_calendars(BATCH):
            pass
        return await self.calendar(tenant_id, name)

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            row = await connection.fetchrow(SQL["find_calendars"], tenant_id, name)
        if row is None:
            raise NotFound(f"there is no calendar {name!r}", field="calendar")
        return Calendar(row["name"], tuple(row["dates"]), row["version"], row["jobs"])

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["find_calendars"], tenant_id, None)
        return [Calendar(row["name"], tuple(row["dates"]), row["version"], row["jobs"]) for row in rows]

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        async with self.database.acting_for(tenant_id) as connection:
            await connection.fetchval(SQL["lock_calendar"], tenant_id, name)
            # A statement of its own: it sees the jobs of whoever held the calendar before us.
            row = await connection.fetchrow(SQL["find_calendars"], tenant_id, name)
            if row is None:
                raise NotFound(f"there is no calendar {name!r}", field="calendar")
            if row["jobs"]:
                raise CalendarInUse(
                    f"{row['jobs']} jobs leave out the days of {name!r}",
                    field="calendar",
                    remedy="edit or cancel them first, or set it to no dates",
                )
            await connection.execute(SQL["delete_calendar"], tenant_id, name)


async def hold_calendars(connection: Connection, tenant_id: int, names: Sequence[str]) -> list[Calendar]:
    """Those of these calendars that exist, held against change and removal."""
    if not names:
        return []
    rows = await connection.fetch(SQL["hold_calendars"], tenant_id, list(names))
    return [Calendar(row["name"], tuple(row["dates"]), row["version"]) for row in rows]


async def use_calendars(connection: Connection, tenant_id: int, job_id: UUID, calendars: Sequence[Calendar]) -> None:
    """Remember which calendars a job uses."""
    names, versions = [calendar.name for calendar in calendars], [calendar.version for calendar in calendars]
    await connection.execute(SQL["use_calendars"], tenant_id, job_id, names, versions)
