"""Logging a browser in through an identity provider: authorization code, with PKCE, `state` and `nonce`.

    GET /login/sso/{provider}  →  the provider's login page  →  GET /login/sso/{provider}/callback  →  a session

What the second request needs from the first is in a cookie, encrypted with a key that all servers share: no server
stores anything for a browser that only begins. The cookie binds the login to its browser, and `state` binds it to this
request. It also carries the id of the session to be, so one login begins one session, however often it is repeated.

Each provider has its own callback address, and the cookie names the provider: an answer of one cannot be taken for an
answer of another. Where the provider sends `iss` (RFC 9207), it is checked too.
"""

import os
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hmac import compare_digest
from secrets import token_urlsafe
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from duetime.api.sso.identities import Identities, Verified
from duetime.api.sso.provider_link import CodeRefused, ProviderDown, ProviderLink
from duetime.api.sso.providers import Provider
from duetime.clock import SystemClock
from duetime.crypto.pkce import challenge_of, new_verifier
from duetime.crypto.signed_tokens import BadToken, RefusedClaims
from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.model.oidc_metadata import Metadata
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.targets.url import check_url
from duetime.wire.sso import CallbackQuery

LASTS = 600
"""Seconds from the button to the callback."""
_NONCE = 12
_ABOUT = b"duetime sso login"
_MOST_PATH = 1000
_OWN_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
_clock = SystemClock()


class LoginRefused(Exception):
    """A login that begins no session. All texts are shown to the person."""

    def __init__(self, status: int, title: str, detail: str, remedy: str, *, logged: str | None = None) -> None:
        super().__init__(logged or detail)
        self.status = status
        self.title = title
        self.detail = detail
        self.remedy = remedy


class Pending(msgspec.Struct, frozen=True):
    """What the cookie of a login carries."""

    provider: str
    state: str
    nonce: str
    verifier: str
    to: str
    """The page to show afterwards."""
    session_id: UUID
    began_at: float


class Started(NamedTuple):
    address: str
    """Where the browser goes."""
    cookie: str


class Finished(NamedTuple):
    person: Verified
    pending: Pending


class LoginFlow:
    def __init__(self, store: Store, settings: Settings, identities: Identities) -> None:
        self._store = store
        self._identities = identities
        self._base = settings.public_url or ""
        self._sealer: AESGCM | None = None

    def link(self, name: str) -> ProviderLink:
        """The provider of this name. Raises `LoginRefused`."""
        found = self._identities.links.get(name)
        if found is None:
            raise LoginRefused(
                404, "Unknown provider", "This server has no identity provider of this name.", "Choose one that it has."
            )
        return found

    async def begin(self, link: ProviderLink, to: str) -> Started:
        """Raises `LoginRefused`."""
        provider, pending = link.provider, _pending(link.provider.name, to)
        endpoint = (await self._metadata(link)).authorization_endpoint
        try:
            _check_page(endpoint, provider)
        except InvalidInput as error:
            raise _down(provider.title, error) from None
        asked = {
            "response_type": "code",
            "client_id": provider.client_id,
            "redirect_uri": self._callback(link),
            "scope": " ".join(provider.scopes),
            "state": pending.state,
            "nonce": pending.nonce,
            "code_challenge": challenge_of(pending.verifier),
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in endpoint else "?"
        return Started(f"{endpoint}{joint}{urlencode(asked)}", await self._sealed(pending))

    async def finish(self, link: ProviderLink, query: CallbackQuery, cookie: str | None) -> Finished:
        """Raises `LoginRefused`."""
        provider = link.provider
        pending = None if cookie is None else await self._opened(cookie)
        if (
            pending is None
            or pending.provider != provider.name
            or not compare_digest((query.state or "").encode(), pending.state.encode())
        ):
            raise LoginRefused(
                401,
                "This login is not known",
                "It was begun in another browser or tab, was used before, or took longer than ten minutes.",
                "Log in again, and finish in the same tab.",
            )
        metadata = await self._metadata(link)
        names_itself = metadata.authorization_response_iss_parameter_supported or query.iss is not None
        if names_itself and query.iss != provider.issuer:
            raise LoginRefused(
                401,
                "The answer is not from this provider",
                f"The login was begun with {provider.title}, and another provider answered.",
                "Log in again. If this happens again, tell the operator of this service.",
            )
        if query.error is not None or not query.code:
            raise _refused_by(provider.title, query.error or "no code", query.error_description)
        try:
            tokens = await link.exchange(query.code, pending.verifier, self._callback(link))
            if tokens.id_token is None:
                raise BadToken("the answer has no ID token")
            person = await self._identities.verify_login(link, tokens.id_token, pending.nonce, tokens.access_token)
        except CodeRefused as error:
            raise _refused_by(provider.title, str(error), None) from None
        except ProviderDown as error:
            raise _down(provider.title, error) from None
        except BadToken as error:
            detail = f"{error}." if isinstance(error, RefusedClaims) else "Its token is not valid."
            raise LoginRefused(
                401,
                "The answer of the provider is not accepted",
                detail[:1].upper() + detail[1:],
                "Log in again. If this happens again, the operator of this service finds the reason in the log.",
                logged=str(error),
            ) from None
        return Finished(person, pending)

    async def logout_address(self, link: ProviderLink) -> str | None:
        """Where the browser ends the session at the provider; None if the provider has no such page."""
        try:
            endpoint = (await link.metadata()).end_session_endpoint
            if endpoint is None:
                return None
            _check_page(endpoint, link.provider)
        except (ProviderDown, InvalidInput):
            return None
        asked = {"client_id": link.provider.client_id, "post_logout_redirect_uri": f"{self._base}/"}
        return f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}"

    def _callback(self, link: ProviderLink) -> str:
        return f"{self._base}/login/sso/{link.provider.name}/callback"

    async def _metadata(self, link: ProviderLink) -> Metadata:
        try:
            return await link.metadata()
        except ProviderDown as error:
            raise _down(link.provider.title, error) from None

    async def _sealed(self, pending: Pending) -> str:
        nonce = os.urandom(_NONCE)
        sealed = (await self._key()).encrypt(nonce, msgspec.msgpack.encode(pending), _ABOUT)
        return urlsafe_b64encode(nonce + sealed).decode().rstrip("=")

    async def _opened(self, cookie: str) -> Pending | None:
        try:
            raw = urlsafe_b64decode(cookie.encode("ascii") + b"=" * (-len(cookie) % 4))
            text = (await self._key()).decrypt(raw[:_NONCE], raw[_NONCE:], _ABOUT)
            found = msgspec.msgpack.decode(text, type=Pending)
        except (ValueError, InvalidTag, msgspec.DecodeError):
            return None
        return found if 0 <= _clock.now().timestamp() - found.began_at + 60 <= LASTS + 60 else None

    async def _key(self) -> AESGCM:
        if self._sealer is None:
            self._sealer = AESGCM(await self._store.tenants.secret("sso login", os.urandom(32)))
        return self._sealer


def own_path(given: str | None) -> str:
    """A page of this server: a path with one slash at its start. Anything else leads to the first page, so that a
    link to the login cannot send a person to another site."""
    return given if given and len(given) <= _MOST_PATH and _OWN_PATH.fullmatch(given) else "/"


def _pending(provider: str, to: str) -> Pending:
    now = _clock.now().timestamp()
    return Pending(provider, token_urlsafe(32), token_urlsafe(32), new_verifier(), own_path(to), new_id(), now)


def _check_page(url: str, provider: Provider) -> None:
    """Raises `InvalidInput` for a page of a provider that no browser is sent to."""
    check_url(url, provider.guard if url.startswith("https:") else provider.guard.only_allowed())


def _down(title: str, error: Exception) -> LoginRefused:
    return LoginRefused(
        503,
        f"{title} cannot be used now",
        "The identity provider does not answer, or its configuration is not usable.",
        "Try again in a minute, or log in with a key. The operator of this service finds the reason in the log.",
        logged=str(error),
    )


def _refused_by(title: str, code: str, description: str | None) -> LoginRefused:
    words = {
        "access_denied": "The login was cancelled, or the account may not use this application.",
        "login_required": "The account is not logged in there.",
        "consent_required": "The application needs a consent there.",
        "invalid_grant": "The code of this login was used before, or has expired.",
        "invalid_client": "It does not accept the client id or the secret of this server.",
        "unauthorized_client": "It does not allow this kind of login for this application.",
        "invalid_scope": "It does not know one of the scopes that this server asks for.",
    }
    detail = words.get(code, "It did not say why in a way that this server knows.")
    said = f" It says: {description[:300]}" if description else ""
    return LoginRefused(
        403 if code == "access_denied" else 401,
        f"{title} refused the login",
        f"{detail}{said} (error {code[:60]})",
        "Log in again. If this happens again, tell the operator of this service.",
        logged=f"{code}: {description or ''}",
    )
