"""Events: a file has one writer, so their numbers are their order."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.model.event import Event, EventKind, EventMark
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.event_log import tell
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, microseconds, moment, unpacked


class EventRole(Role):
    async def keep_listening(self, period: timedelta) -> EventMark:
        def work(connection: Connection, now: int) -> int:
            connection.execute("keep_listening", {"until": now + microseconds(period)})
            number: int = connection.value("last_mark", {})
            return number

        return EventMark(await self.database.run(work))

    async def tell(self, kind: EventKind, tenant_id: int, ids: Sequence[UUID]) -> None:
        await self.database.run(lambda connection, now: tell(connection, now, kind, tenant_id, ids))

    async def events(self, after: EventMark, limit: int = 1000) -> list[Event]:
        page = {"after": after, "limit": limit}
        rows = await self.database.run(lambda connection, _: connection.rows("list_events", page))
        return [
            Event(
                EventMark(number),
                moment(at),
                EventKind(kind),
                tenant_id,
                tuple(identity(body) for body in unpacked(ids)),
            )
            for number, at, kind, tenant_id, ids in rows
        ]
