"""Events: read in the order of transactions, and only those that nothing can come before any more.

A number drawn by a transaction that commits late would appear behind a reader that went by numbers. So the place of an
event is (transaction, number), and a reader stops below the oldest transaction that is still under way.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.event import Event, EventKind, EventMark
from duetime.store.postgres.role import Role

_LAST_NUMBER = 2**63 - 1


class EventRole(Role):
    async def keep_listening(self, period: timedelta) -> EventMark:
        await self.database.execute("keep_listening", period)
        return EventMark(await self.database.fetchval("last_mark"), _LAST_NUMBER)

    async def tell(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        await self.database.execute("tell", kind, tenant_id, list(ids))

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        rows = await self.database.fetch("list_events", str(after.transaction), after.number, limit)
        return [
            Event(EventMark(transaction, number), at, EventKind(kind), tenant_id, tuple(ids))
            for transaction, number, at, kind, tenant_id, ids in rows
        ]
