"""Browser sessions: the cookie of a session, and the link that begins one.

The cookie is `HttpOnly` and `SameSite=Strict`. Over TLS it is also `Secure`, and its name begins with `__Host-`, so
that neither a page on plain HTTP nor another host of the domain can set it. A request over TLS is authenticated by the
`__Host-` cookie only. `model/session.py` describes what is stored of a session.
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
        """A token that begins one session of this key; None if the key is not usable."""
        token = new_token()
        until = await self._store.sessions.add_login_link(key_id, token_hash(token), LINK_LASTS)
        return None if until is None else LoginLink(token, until)

    async def follow(self, token: str) -> ApiKey | None:
        """The key of a link; None if the token is unknown, used or expired."""
        return await self._store.sessions.take_login_link(token_hash(token)) if looks_like_token(token) else None

    async def begin(self, key: ApiKey, headers: Headers, peer: Peer) -> str | None:
        """Begin a session of this key. Returns the `Set-Cookie` header; None if the key is no longer usable."""
        token, address = new_token(), peer.address
        agent = agent_text(headers.get(b"user-agent", b"").decode("latin-1"))
        shown = "" if address is None else str(address)
        made = NewSession(new_id(), key.id, token_hash(token), shown, agent)
        if await self._store.sessions.begin_session(made, self._lifetime, self._idle) is None:
            return None
        # With an unknown proxy, the browser's Origin header is good enough: it affects only its own cookie.
        secure = peer.is_secure(headers) or headers.get(b"origin", b"").startswith(b"https://")
        return _cookie(token, int(self._lifetime.total_seconds()), secure=secure)

    async def touch(self, session_ids: list[UUID]) -> None:
        await self._store.sessions.touch_sessions(session_ids, self._idle)


def session_hash(headers: Headers, peer: Peer) -> bytes | None:
    """The hash of the session token in a request's cookies; None if there is none."""
    _, token = _found(headers, peer)
    return None if token is None else token_hash(token)


def no_cookie(headers: Headers, peer: Peer) -> str:
    """The `Set-Cookie` header that removes the cookie of a request."""
    name, _ = _found(headers, peer)
    return _cookie("", 0, secure=name == SECURE_COOKIE)


def _found(headers: Headers, peer: Peer) -> tuple[str, str | None]:
    """The name and the token of the session cookie. All applications on a host share cookies, whatever their ports, so
    a malformed cookie of another application must not hide this one."""
    pairs = [pair.partition("=") for pair in headers.get(b"cookie", b"").decode("latin-1").split(";")]
    given = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    # Only a server behind TLS can set the one with the prefix, so it comes first.
    name = SECURE_COOKIE if SECURE_COOKIE in given or peer.is_secure(headers) else COOKIE
    token = given.get(name, "")
    return name, token if looks_like_token(token) else None


def _cookie(value: str, seconds: int, *, secure: bool) -> str:
    name, more = (SECURE_COOKIE, "; Secure") if secure else (COOKIE, "")
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={seconds}{more}"
