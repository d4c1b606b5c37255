"""Sessions of browsers, and the links that begin them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.model.access import ApiKey
from duetime.model.session import MOST_LINKS, MOST_SESSIONS, NewSession, Opened, Session, SessionScope
from duetime.store.postgres.access import key_of
from duetime.store.postgres.database import SQL
from duetime.store.postgres.role import Role
from duetime.store.shared.service_rows import LAST_ID, no_session, stored_session


class SessionRole(Role):
    async def begin_session(self, session: NewSession, lifetime: timedelta, idle: timedelta) -> Session | None:
        values = (session.id, session.key_id, session.hash, session.address, session.agent)
        async with self.database.transaction() as connection:
            if await connection.fetchrow(SQL["usable_key"], session.key_id) is None:
                return None
            await connection.execute(SQL["begin_session"], *values, lifetime, idle)
            await connection.execute(SQL["end_surplus_sessions"], session.key_id, MOST_SESSIONS)
            row = await connection.fetchrow(SQL["find_session"], None, None, session.id)
        assert row is not None
        return stored_session(row)

    async def session_of(self, hash: bytes) -> Opened | None:
        row = await self.database.fetchrow("session_of", hash)
        return None if row is None else Opened(row["session_id"], key_of(row))

    async def sessions(self, scope: SessionScope, before: UUID | None = None, limit: int = 100) -> list[Session]:
        rows = await self.database.fetch("list_sessions", scope.key_id, scope.tenant_id, before or LAST_ID, limit)
        return [stored_session(row) for row in rows]

    async def touch_sessions(self, session_ids: Sequence[UUID], idle: timedelta) -> None:
        await self.database.execute("touch_sessions", list(session_ids), idle)

    async def end_session(self, scope: SessionScope, session_id: UUID) -> Session:
        async with self.database.transaction() as connection:
            row = await connection.fetchrow(SQL["find_session"], scope.key_id, scope.tenant_id, session_id)
            if row is None:
                raise no_session(session_id)
            await connection.execute(SQL["end_session"], session_id)
        return stored_session(row)

    async def end_session_of(self, hash: bytes) -> bool:
        return await self.database.execute("end_session_of", hash) > 0

    async def add_login_link(self, key_id: UUID, hash: bytes, lasts: timedelta) -> datetime | None:
        async with self.database.transaction() as connection:
            if await connection.fetchrow(SQL["usable_key"], key_id) is None:
                return None
            until: datetime = await connection.fetchval(SQL["add_login_link"], hash, key_id, lasts)
            await connection.execute(SQL["drop_surplus_links"], key_id, MOST_LINKS)
        return until

    async def take_login_link(self, hash: bytes) -> ApiKey | None:
        row = await self.database.fetchrow("take_login_link", hash)
        return None if row is None else key_of(row)
