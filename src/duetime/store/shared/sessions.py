"""Browser sessions, and the login links that begin them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

import msgspec
from msgspec.structs import asdict

from duetime.model.access import ApiKey
from duetime.model.session import EVERYWHERE, MOST_LINKS, MOST_SESSIONS, NewSession, Opened, Session, SessionScope
from duetime.store.shared.service_rows import (
    LAST_ID,
    NOTED_EVERY,
    no_session,
    stored_identity,
    stored_key,
    stored_session,
)
from duetime.store.shared.transaction import SharedRole, Transaction, found


class SessionRole(SharedRole):
    async def begin_session(self, session: NewSession, lifetime: timedelta, idle: timedelta) -> Session | None:
        async def work(transaction: Transaction) -> Session | None:
            if session.identity is None and await transaction.row("usable_key", key_id=session.key_id) is None:
                return None
            identity = None if session.identity is None else msgspec.json.encode(session.identity)
            given = {**asdict(session), "identity": identity, "tenant_ids": list(session.tenant_ids)}
            ends = {"lifetime": lifetime, "idle": min(lifetime, idle)}
            if not await transaction.execute("begin_session", **given, **ends):
                return None
            await transaction.execute("end_surplus_sessions", key_id=session.key_id, most=MOST_SESSIONS)
            return stored_session(found(await transaction.row("find_session", **asdict(EVERYWHERE), id=session.id)))

        return await self.transactions.run(work)

    async def session_of(self, hash: bytes) -> Opened | None:
        row = await self.transactions.row("session_of", hash=hash)
        if row is None:
            return None
        identity = stored_identity(row)
        key = None if identity is not None else stored_key(row)
        return Opened(row["session_id"], row["began_at"], row["at"], key, identity)

    async def sessions(self, scope: SessionScope, before: UUID | None = None, limit: int = 100) -> list[Session]:
        page = {"before": before or LAST_ID, "limit": limit}
        return [stored_session(row) for row in await self.transactions.rows("list_sessions", **asdict(scope), **page)]

    async def touch_sessions(self, session_ids: Sequence[UUID], idle: timedelta) -> None:
        await self.transactions.execute("touch_sessions", ids=list(session_ids), idle=idle, every=NOTED_EVERY)

    async def end_session(self, scope: SessionScope, session_id: UUID) -> Session:
        async def work(transaction: Transaction) -> Session:
            row = await transaction.row("find_session", **asdict(scope), id=session_id)
            if row is None:
                raise no_session(session_id)
            await transaction.execute("end_session", id=session_id)
            return stored_session(row)

        return await self.transactions.run(work)

    async def end_session_of(self, hash: bytes) -> bool:
        return await self.transactions.execute("end_session_of", hash=hash) > 0

    async def add_login_link(self, key_id: UUID, hash: bytes, lasts: timedelta) -> datetime | None:
        async def work(transaction: Transaction) -> datetime | None:
            if await transaction.row("usable_key", key_id=key_id) is None:
                return None
            until: datetime = await transaction.value("add_login_link", hash=hash, key_id=key_id, lasts=lasts)
            await transaction.execute("drop_surplus_links", key_id=key_id, most=MOST_LINKS)
            return until

        return await self.transactions.run(work)

    async def take_login_link(self, hash: bytes) -> ApiKey | None:
        async def work(transaction: Transaction) -> ApiKey | None:
            link = await transaction.row("take_login_link", hash=hash)
            if link is None or not link["usable"]:
                return None
            row = await transaction.row("usable_key", key_id=link["key_id"])
            return None if row is None else stored_key(row)

        return await self.transactions.run(work)
