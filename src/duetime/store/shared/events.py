"""Events: their order is the order in which they could be read first.

A file has one writer, so there the numbers of events are their order. In PostgreSQL, a number that a writer draws is no
place in a stream: drawn by a transaction that commits late, it would appear behind its readers. To read only up to the
oldest open transaction would let any of them, in any database of the server, hold up all streams. So a reader gives an
event its place when it finds it committed (`place_events`), after all that was read before.
"""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.event import Event, EventKind, EventMark
from duetime.store.shared.transaction import SharedRole


class EventRole(SharedRole):
    async def keep_listening(self, period: timedelta) -> EventMark:
        await self.transactions.execute("keep_listening", period=period)
        return EventMark(await self.transactions.value("last_mark"))

    async def tell(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        if ids:
            await self.transactions.execute("tell", kind=kind, tenant_id=tenant_id, ids=list(ids))

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        rows = await self.transactions.rows("list_events", after=after, limit=limit)
        return [
            Event(EventMark(row["place"]), row["at"], EventKind(row["kind"]), row["tenant_id"], tuple(row["ids"]))
            for row in rows
        ]
