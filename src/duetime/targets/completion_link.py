"""Completion links: how a receiver that answered 202 reports the result later.

The link holds the run and its fence, signed with a key that only the nodes share. Its holder may end that attempt,
once, and nothing else: a retry has another fence, which invalidates the link.
"""

import hmac
import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from struct import Struct
from typing import NamedTuple, Protocol
from uuid import UUID

PATH = "/v1/completions/"
_BODY = Struct(">II16s")
_SIGNATURE = 20
_SECRET = "completion links"


class SharedSecrets(Protocol):
    async def secret(self, name: str, fresh: bytes) -> bytes: ...


class Completable(NamedTuple):
    """The attempt that a link is for."""

    tenant_id: int
    run_id: UUID
    fence: int


class CompletionLinks:
    def __init__(self, store: SharedSecrets, public_url: str | None = None) -> None:
        self._store = store
        self.public_url = public_url
        """The address at which receivers reach this service; without it a link is only its path."""
        self._key: bytes | None = None

    async def make(self, attempt: Completable) -> str:
        body = _BODY.pack(attempt.tenant_id, attempt.fence, attempt.run_id.bytes)
        token = urlsafe_b64encode(body + _sign(await self._shared_key(), body)).decode().rstrip("=")
        return f"{self.public_url or ''}{PATH}{token}"

    async def read(self, token: str) -> Completable | None:
        """The attempt that a token is for; None for a token with an invalid signature."""
        try:
            whole = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except ValueError:
            return None
        body, signature = whole[: _BODY.size], whole[_BODY.size :]
        if len(body) != _BODY.size or not hmac.compare_digest(signature, _sign(await self._shared_key(), body)):
            return None
        tenant_id, fence, run_id = _BODY.unpack(body)
        return Completable(tenant_id, UUID(bytes=run_id), fence)

    async def _shared_key(self) -> bytes:
        if self._key is None:
            self._key = await self._store.secret(_SECRET, os.urandom(32))
        return self._key


def _sign(key: bytes, body: bytes) -> bytes:
    return hmac.digest(key, body, "sha256")[:_SIGNATURE]
