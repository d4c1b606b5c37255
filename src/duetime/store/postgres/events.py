"""Events: their order is the order in which they could be read first.

A number that a writer draws is no place in a stream: drawn by a transaction that commits late, it would appear behind
its readers. To read only up to the oldest open transaction would let any of them, in any database of the server, hold
up all streams. So a reader gives an event its place when it finds it committed (`place_events`), after all that was
read before.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.event import Event, EventKind, EventMark
from duetime.store.postgres.role import Role


class EventRole(Role):
    async def keep_listening(self, period: timedelta) -> EventMark:
        await self.database.execute("keep_listening", period)
        return EventMark(await self.database.fetchval("last_mark"))

    async def tell(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        await self.database.execute("tell", kind, tenant_id, list(ids))

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        rows = await self.database.fetch("list_events", after, limit)
        return [
            Event(EventMark(place), at, EventKind(kind), tenant_id, tuple(ids))
            for place, at, kind, tenant_id, ids in rows
        ]
