"""Browser sessions: the cookie of a session, and the link that begins one.

The cookie is `HttpOnly` and `SameSite=Strict`. Over TLS it is also `Secure`, and its name begins with `__Host-`, so
that neither a page on plain HTTP nor another host of the domain can set it. A request over TLS is authenticated by the
`__Host-` cookie only. `model/session.py` describes what is stored of a session.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from uuid import UUID

from duetime.api.peer import Peer
from duetime.ids import new_id
from duetime.model.access import ApiKey
from duetime.model.identity import Identity
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
LOGIN_COOKIE = "duetime_login"
_PREFIX = "__Host-"
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
        token = new_token()
        made = NewSession(new_id(), key.id, token_hash(token), *_browser(headers, peer))
        return await self._begin(made, token, self._lifetime, headers, peer)

    async def begin_for(
        self,
        session_id: UUID,
        identity: Identity,
        tenant_ids: tuple[int, ...],
        lifetime: timedelta,
        headers: Headers,
        peer: Peer,
    ) -> str | None:
        """Begin the session of a person. Returns the `Set-Cookie` header; None if there is a session with this id."""
        token = new_token()
        made = NewSession(session_id, identity.id, token_hash(token), *_browser(headers, peer), identity, tenant_ids)
        return await self._begin(made, token, lifetime, headers, peer)

    async def _begin(
        self, made: NewSession, token: str, lifetime: timedelta, headers: Headers, peer: Peer
    ) -> str | None:
        if await self._store.sessions.begin_session(made, lifetime, self._idle) is None:
            return None
        # With an unknown proxy, the browser's Origin header is good enough: it affects only its own cookie.
        secure = peer.is_secure(headers) or headers.get(b"origin", b"").startswith(b"https://")
        return _cookie(COOKIE, token, int(lifetime.total_seconds()), secure=secure)

    async def touch(self, session_ids: list[UUID]) -> None:
        await self._store.sessions.touch_sessions(session_ids, self._idle)


def session_hash(headers: Headers, peer: Peer) -> bytes | None:
    """The hash of the session token in a request's cookies; None if there is none."""
    _, token = _found(headers, peer, COOKIE)
    return token_hash(token) if looks_like_token(token) else None


def no_cookie(headers: Headers, peer: Peer) -> str:
    """The `Set-Cookie` header that removes the cookie of a request."""
    secure, _ = _found(headers, peer, COOKIE)
    return _cookie(COOKIE, "", 0, secure=secure)


def login_cookie(value: str, seconds: int, headers: Headers, peer: Peer) -> str:
    """The `Set-Cookie` header of a login that is under way. A provider's page sends the browser back, so it is `Lax`:
    a strict cookie would not come along."""
    return _cookie(LOGIN_COOKIE, value, seconds, secure=peer.is_secure(headers), site="Lax")


def login_cookie_of(headers: Headers, peer: Peer) -> str | None:
    """The cookie of a login that is under way."""
    return _found(headers, peer, LOGIN_COOKIE)[1] or None


def _browser(headers: Headers, peer: Peer) -> tuple[str, str]:
    """The address and the name of a browser, as a session shows them."""
    agent = agent_text(headers.get(b"user-agent", b"").decode("latin-1"))
    return "" if peer.address is None else str(peer.address), agent


def _found(headers: Headers, peer: Peer, plain: str) -> tuple[bool, str]:
    """Whether the cookie is the secure one, and its value. All applications on a host share cookies, whatever their
    ports, so a malformed cookie of another application must not hide this one."""
    pairs = [pair.partition("=") for pair in headers.get(b"cookie", b"").decode("latin-1").split(";")]
    given = {name.strip(): value.strip() for name, _, value in reversed(pairs)}
    # Only a server behind TLS can set the one with the prefix, so it comes first.
    secure = _PREFIX + plain in given or peer.is_secure(headers)
    return secure, given.get(_PREFIX + plain if secure else plain, "")


def _cookie(plain: str, value: str, seconds: int, *, secure: bool, site: Literal["Strict", "Lax"] = "Strict") -> str:
    name, more = (_PREFIX + plain, "; Secure") if secure else (plain, "")
    return f"{name}={value}; Path=/; HttpOnly; SameSite={site}; Max-Age={seconds}{more}"
