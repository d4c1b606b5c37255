"""Token buckets in the file, shared by the processes that use it."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duetime.model.token_bucket import TokenAsk, TokenGrant, take
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role

_WHOLE_TENANT = UUID(int=0)
_SECOND = 1_000_000
_LONGEST = 8_000_000.0
"""Seconds: a quarter of a year."""


class AllowanceRole(Role):
    async def take_tokens(self, asks: Sequence[TokenAsk]) -> list[TokenGrant]:
        return await self.database.run(lambda connection, now: [_taken(connection, now, ask) for ask in asks])


def _taken(connection: Connection, now: int, ask: TokenAsk) -> TokenGrant:
    bucket: dict[str, Any] = {"tenant_id": ask.tenant_id, "key_id": (ask.key_id or _WHOLE_TENANT).bytes}
    rows = connection.rows("token_bucket", bucket)
    level, filled_at = rows[0] if rows else (ask.size, now)
    grant = take(ask, level, (now - filled_at) / _SECOND)
    full_in = min(_LONGEST, (ask.size - grant.level) / ask.rate)
    connection.execute(
        "take_tokens", {**bucket, "level": grant.level, "now": now, "full_at": now + int(full_in * _SECOND)}
    )
    return grant
