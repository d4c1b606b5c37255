"""Sessions of browsers, and the links that begin them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.model.access import ApiKey
from duetime.model.session import EVERYWHERE, MOST_LINKS, MOST_SESSIONS, NewSession, Opened, Session, SessionScope
from duetime.store.shared.service_rows import LAST_ID, no_session, stored_session
from duetime.store.sqlite.access import key_of
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import maybe_bytes, microseconds, moment


class SessionRole(Role):
    async def begin_session(self, session: NewSession, lifetime: timedelta, idle: timedelta) -> Session | None:
        values = {
            "id": session.id.bytes,
            "key_id": session.key_id.bytes,
            "hash": session.hash,
            "address": session.address,
            "agent": session.agent,
            "lifetime": microseconds(lifetime),
            "idle": microseconds(idle),
            "most": MOST_SESSIONS,
        }

        def work(connection: Connection, now: int) -> Session | None:
            this = {**values, "now": now}
            if connection.row("usable_key", this) is None:
                return None
            connection.execute("begin_session", this)
            connection.execute("end_surplus_sessions", this)
            (row,) = connection.records("find_session", {**_scoped(EVERYWHERE), "id": this["id"], "now": now})
            return stored_session(row)

        return await self.database.run(work)

    async def session_of(self, hash: bytes) -> Opened | None:
        rows = await self.database.run(
            lambda connection, now: connection.records("session_of", {"hash": hash, "now": now})
        )
        return Opened(rows[0]["session_id"], key_of(rows[0])) if rows else None

    async def sessions(self, scope: SessionScope, before: UUID | None = None, limit: int = 100) -> list[Session]:
        page = {**_scoped(scope), "before": (before or LAST_ID).bytes, "limit": limit}
        rows = await self.database.run(
            lambda connection, now: connection.records("list_sessions", {**page, "now": now})
        )
        return [stored_session(row) for row in rows]

    async def touch_sessions(self, session_ids: Sequence[UUID], idle: timedelta) -> None:
        def work(connection: Connection, now: int) -> None:
            this = {"idle": microseconds(idle), "now": now}
            connection.many("touch_sessions", [{**this, "id": session_id.bytes} for session_id in session_ids])

        await self.database.run(work)

    async def end_session(self, scope: SessionScope, session_id: UUID) -> Session:
        this = {**_scoped(scope), "id": session_id.bytes}

        def work(connection: Connection, now: int) -> Session:
            rows = connection.records("find_session", {**this, "now": now})
            if not rows:
                raise no_session(session_id)
            connection.execute("end_session", this)
            return stored_session(rows[0])

        return await self.database.run(work)

    async def end_session_of(self, hash: bytes) -> bool:
        return await self.database.run(lambda connection, _: connection.execute("end_session_of", {"hash": hash})) > 0

    async def add_login_link(self, key_id: UUID, hash: bytes, lasts: timedelta) -> datetime | None:
        values = {"key_id": key_id.bytes, "hash": hash, "lasts": microseconds(lasts), "most": MOST_LINKS}

        def work(connection: Connection, now: int) -> datetime | None:
            this = {**values, "now": now}
            if connection.row("usable_key", this) is None:
                return None
            until = connection.value("add_login_link", this)
            connection.execute("drop_surplus_links", this)
            return moment(until)

        return await self.database.run(work)

    async def take_login_link(self, hash: bytes) -> ApiKey | None:
        def work(connection: Connection, now: int) -> ApiKey | None:
            rows = connection.records("login_link", {"hash": hash, "now": now})
            connection.execute("take_login_link", {"hash": hash})
            return key_of(rows[0]) if rows else None

        return await self.database.run(work)


def _scoped(scope: SessionScope) -> dict[str, Any]:
    return {"key_id": maybe_bytes(scope.key_id), "tenant_id": scope.tenant_id}
