"""Token buckets that all nodes share."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.token_bucket import TokenAsk, TokenGrant
from duetime.store.postgres.database import columns
from duetime.store.postgres.role import Role

_WHOLE_TENANT = UUID(int=0)


class AllowanceRole(Role):
    async def take_tokens(self, asks: Sequence[TokenAsk]) -> list[TokenGrant]:
        rows = [ask._replace(key_id=ask.key_id or _WHOLE_TENANT) for ask in asks]
        row = await self.database.fetchrow("take_tokens", *columns(rows, len(TokenAsk._fields)))
        assert row is not None
        return [TokenGrant(given, level) for given, level in zip(row["given"], row["levels"], strict=True)]
