"""Browsers: a link that logs in once, and the session that it begins.

A link carries a token that this process made and keeps until it is used or too old. The session is a signed cookie
that names a key by its hash, so it ends when the key does, on every node.
"""

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from hmac import compare_digest

from duetime.clock import monotonic
from duetime.store.protocol import Store

COOKIE = "duetime_session"
LINK_LASTS = 3600.0
SESSION_LASTS = 12 * 3600
_TAG = 16
_MOST_LINKS = 1000


class Sessions:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._secret: bytes | None = None
        self._links: dict[str, tuple[float, bytes]] = {}

    def link(self, key_hash: bytes) -> str:
        """A token that begins one session of this key."""
        now = monotonic()
        self._links = {token: link for token, link in self._links.items() if link[0] > now}
        while len(self._links) >= _MOST_LINKS:
            del self._links[next(iter(self._links))]
        token = secrets.token_urlsafe(24)
        self._links[token] = now + LINK_LASTS, key_hash
        return token

    async def begin(self, token: str) -> str | None:
        """The header that sets the cookie; None for a token that is unknown, used or too old."""
        until, key_hash = self._links.pop(token, (0.0, b""))
        return None if until <= monotonic() else await self.cookie(key_hash)

    async def cookie(self, key_hash: bytes) -> str:
        """The header that begins a session of this key."""
        ends = int((await self._store.now()).timestamp()) + SESSION_LASTS
        content = ends.to_bytes(8, "big") + key_hash
        value = urlsafe_b64encode(content + await self._sign(content)).decode().rstrip("=")
        return f"{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={SESSION_LASTS}"

    @property
    def no_cookie(self) -> str:
        """The header that ends a session in its browser."""
        return f"{COOKIE}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0"

    async def key_hash(self, cookies: str) -> bytes | None:
        """The hash of the key that the session in these cookies stands for."""
        value = _found(cookies)
        try:
            raw = urlsafe_b64decode(value + "=" * (-len(value) % 4))
        except ValueError:
            return None
        content, tag = raw[:-_TAG], raw[-_TAG:]
        if len(content) != 40 or not compare_digest(tag, await self._sign(content)):
            return None
        over = int.from_bytes(content[:8], "big") < int((await self._store.now()).timestamp())
        return None if over else content[8:]

    async def _sign(self, content: bytes) -> bytes:
        if self._secret is None:
            self._secret = await self._store.secret("sessions", os.urandom(32))
        return blake2b(content, digest_size=_TAG, key=self._secret, person=b"duetime session").digest()


def _found(cookies: str) -> str:
    """Our cookie among those of the host; empty if it is not there. All applications on the host share them, whatever
    their ports, and one that a strict parser dislikes must not hide ours."""
    pairs = (pair.partition("=") for pair in cookies.split(";"))
    return next((value.strip() for name, _, value in pairs if name.strip() == COOKIE), "")
