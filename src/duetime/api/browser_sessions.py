"""Browsers: the cookie of a session, and the link that begins one.

The cookie is `HttpOnly` and `SameSite=Strict`. Behind TLS it is also `Secure`, and its name begins with `__Host-`: then
neither a page on plain HTTP nor another host of the domain can plant one. Such a request is known by the `__Host-`
cookie alone. What is stored of a session is in `model/session.py`.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from duetime.api.peer import Peer
from duetime.ids import new_id
from duetime.model.access import ApiKey
from duetime.model.session import (
    LINK_LASTS,
    NewSession,
    agent_text,
    looks_like_token,
    new_token,
    token_hash,
)
from duetime.settings import Settings
from duetime.store.protocol.store import Store

COOKIE = "duetime_session"
SECURE_COOKIE = f"__Host-{COOKIE}"
Headers = Mapping[bytes, bytes]


class LoginLink(NamedTuple):
    token: str
    expires_at: datetime


class Sessions:
    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._lifetime = settings.session_lifetime
        self._idle = settings.session_idle

    async def link(self, key_id: UUID) -> LoginLink | None:
        """A token that begins one session of this key; None when the key cannot be used."""
        token = new_token()
        until = await self._store.add_login_link(key_id, token_hash(token), LINK_LASTS)
        return None if until is None else LoginLink(token, until)

    async def follow(self, token: str) -> ApiKey | None:
        """The key of a link; None for a token that is unknown, used or too old."""
        return await self._store.take_login_link(token_hash(token)) if looks_like_token(token) else None

    async def begin(self, key: ApiKey, headers: Headers, peer: Peer) -> str | None:
        """Begin a session of this key: the header that sets its cookie; None when the key cannot be used any more."""
        token, address = new_token(), peer.address
        agent = agent_text(headers.get(b"user-agent", b"").decode("latin-1"))
        shown = "" if address is None else str(address)
        made = NewSession(new_id(), key.id, token_hash(token), shown, agent)
        if await self._store.begin_session(made, self._lifetime, self._idle) is None:
            return None
        # Where the proxy is not known to us, the browser's own word for its page is as good: it is its own cookie.
        secure = peer.is_secure(headers) or headers.get(b"origin", b"").startswith(b"https://")
        return _cookie(token, int(self._lifetime.total_seconds()), secure=secure)

    async def touch(self, session_ids: list[UUID]) -> None:
        await self._store.touch_sessions(session_ids, self._idle)


def session_hash(headers: Headers, peer: Peer) -> bytes | None:
    """The hash of the token in a request's cookies; None where none can be one of ours."""
    _, token = _found(headers, peer)
    return None if token is None else token_hash(token)


def no_cookie(headers: Headers, peer: Peer) -> str:
    """The header that removes the cookie of a request."""
    name, _ = _found(headers, peer)
    return _cookie("", 0, secure=name == SECURE_COOKIE)


def _found(headers: Headers, peer: Peer) -> tuple[str, str | None]:
    """Our cookie among those of the host: its name, and its token. All applications on the host share them, whatever
    their ports, and one that a strict parser dislikes must not hide ours."""
    pairs = [pair.partition("=") for pair in headers.get(b"cookie", b"").decode("latin-1").split(";")]
    given = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    # Only a server behind TLS can set the one with the prefix, so it comes first.
    name = SECURE_COOKIE if SECURE_COOKIE in given or peer.is_secure(headers) else COOKIE
    token = given.get(name, "")
    return name, token if looks_like_token(token) else None


def _cookie(value: str, seconds: int, *, secure: bool) -> str:
    name, more = (SECURE_COOKIE, "; Secure") if secure else (COOKIE, "")
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{more}"
