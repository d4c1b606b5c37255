"""Calendars: named sets of days. A transaction that uses a calendar locks it until its end."""

from collections.abc import Sequence
from datetime import date
from uuid import UUID

from duetime.errors import CalendarInUse, NotFound
from duetime.model.calendar import Calendar
from duetime.store.protocol.store import Recompute
from duetime.store.rules.cursor_changes import BATCH
from duetime.store.shared.transaction import Row, SharedContext, SharedRole, Statements, Transaction


class CalendarRole(SharedRole):
    def __init__(self, context: SharedContext, recompute: Recompute) -> None:
        super().__init__(context)
        self._recompute = recompute

    async def set_calendar(self, tenant_id: int, name: str, dates: Sequence[date]) -> Calendar:
        await self.transactions.of(tenant_id).execute("put_calendar", tenant_id=tenant_id, name=name, dates=list(dates))
        # In steps, so that no other transaction waits long; the next node finds what is left if this one dies between.
        while await self._recompute.recompute_calendars(BATCH):
            pass
        return await self.calendar(tenant_id, name)

    async def calendar(self, tenant_id: int, name: str) -> Calendar:
        return await _find(self.transactions.reading(tenant_id), tenant_id, name)

    async def calendars(self, tenant_id: int) -> list[Calendar]:
        rows = await self.transactions.reading(tenant_id).rows("find_calendars", tenant_id=tenant_id, name=None)
        return [calendar_of(row) for row in rows]

    async def delete_calendar(self, tenant_id: int, name: str) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_calendar", tenant_id=tenant_id, name=name)
            # A separate statement, so that it sees the jobs of the transaction that held the lock before.
            calendar = await _find(transaction, tenant_id, name)
            if calendar.jobs:
                raise CalendarInUse(
                    f"{calendar.jobs} jobs exclude the days of {name!r}",
                    field="calendar",
                    remedy="edit or cancel them first, or set an empty list of dates",
                )
            await transaction.execute("forget_users", tenant_id=tenant_id, name=name)
            await transaction.execute("delete_calendar", tenant_id=tenant_id, name=name)

        await self.transactions.of(tenant_id).run(work)


async def hold_calendars(transaction: Transaction, tenant_id: int, names: Sequence[str]) -> list[Calendar]:
    """The calendars among these that exist, locked against change and removal."""
    if not names:
        return []
    rows = await transaction.rows("hold_calendars", tenant_id=tenant_id, names=list(names))
    return [calendar_of(row) for row in rows]


async def use_calendars(transaction: Transaction, tenant_id: int, job_id: UUID, calendars: Sequence[Calendar]) -> None:
    """Store which calendars a new job uses."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id}
    await transaction.many(
        "use_calendar", [{**of_job, "name": each.name, "version": each.version} for each in calendars]
    )


async def use_other_calendars(
    transaction: Transaction, tenant_id: int, job_id: UUID, calendars: Sequence[Calendar]
) -> None:
    """Replace the stored list of calendars that a job uses."""
    await transaction.execute("forget_calendars_of", job_id=job_id)
    await use_calendars(transaction, tenant_id, job_id, calendars)


def calendar_of(row: Row) -> Calendar:
    return Calendar(row["name"], tuple(row["dates"]), row["version"], row["jobs"])


async def _find(statements: Statements, tenant_id: int, name: str) -> Calendar:
    row = await statements.row("find_calendars", tenant_id=tenant_id, name=name)
    if row is None:
        raise NotFound(f"there is no calendar {name!r}", field="calendar")
    return calendar_of(row)
