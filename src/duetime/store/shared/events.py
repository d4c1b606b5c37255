"""The event log. Events are ordered by when they became visible.

A SQLite file has one writer, so the event's number is its position. In PostgreSQL, a number that the writer draws is
not enough: an event of a transaction that commits late would appear behind the readers' position. If readers stopped at
the oldest open transaction, any transaction, in any database of the server, could block all streams. So a reader
assigns the position when it finds an event committed (`place_events`), after all events that were read before.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.event import Event, EventKind, EventMark
from duetime.store.shared.transaction import Rows, SharedRole, Transaction


class EventRole(SharedRole):
    async def keep_listening(self, period: timedelta) -> EventMark:
        await self.transactions.execute("keep_listening", period=period)
        return EventMark(await self.transactions.value("last_mark"))

    async def append_events(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        if ids:
            await self.transactions.execute("append_events", kind=kind, tenant_id=tenant_id, ids=list(ids))

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        rows = await self.transactions.rows("list_events", after=after, limit=limit)
        return [
            Event(EventMark(row["place"]), row["at"], EventKind(row["kind"]), row["tenant_id"], tuple(row["ids"]))
            for row in rows
        ]


async def append_events(transaction: Transaction, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
    """Append events about what this transaction did to jobs or runs."""
    if ids:
        await transaction.execute("append_events", kind=kind, tenant_id=tenant_id, ids=list(ids))


async def append_run_events(transaction: Transaction, kind: EventKind, runs: Rows) -> None:
    """Append events about what this transaction did to runs of any tenants."""
    by_tenant: dict[int, list[UUID]] = defaultdict(list)
    for run in runs:
        by_tenant[run["tenant_id"]].append(run["id"])
    for tenant_id, ids in by_tenant.items():
        await append_events(transaction, kind, tenant_id, ids)
