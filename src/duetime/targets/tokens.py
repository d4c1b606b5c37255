"""Bearer tokens for calls: OIDC identity tokens and OAuth 2 access tokens, kept until shortly before they expire.

A token is obtained for one tenant and one use of one secret. Receivers that answer 401 to a kept token get a new one,
once: providers revoke tokens, and change their keys. Requests for tokens with secrets of tenants go through the address
guard, like every call. google-auth, which finds the service's own identity, is an extra (`duetime[google]`).
"""

import asyncio
import logging
from base64 import b64encode
from collections.abc import Callable, Hashable
from hashlib import blake2b
from importlib.util import find_spec
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import aiohttp
import jwt
import msgspec

from duetime.clock import monotonic
from duetime.errors import InvalidInput, NoCredentials, reason_of
from duetime.model.failure import bounded
from duetime.model.target import ClientCredentials, IdentityToken
from duetime.targets.address_guard import AddressGuard, refused_address, without_addresses
from duetime.targets.cloud_access import CloudAccess
from duetime.targets.target_attempt import TargetAttempt
from duetime.targets.url import Place, check_url
from duetime.targets.values import audience_of, places_of_token
from duetime.targets.vault import Vault

log = logging.getLogger("duetime.targets")

_MOST = 1000
_MARGIN = 60.0
"""Seconds before its end in which a token is not used, or a fifth of a short life."""
_UNKNOWN_LIFE = 300.0
"""Seconds for which a token is kept whose provider does not say how long it is valid."""
_LARGEST = 64 * 1024
_ASSERTION_LIFE = 300
_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_PASSING = frozenset({408, 425, 429})


_Session = Callable[[], aiohttp.ClientSession]


class Token(NamedTuple):
    text: str
    key: Hashable
    is_new: bool
    """Whether it was obtained for this call."""


class _Kept(NamedTuple):
    text: str
    until: float


class _ServiceAccount(msgspec.Struct, frozen=True):
    """What is needed of Google's JSON key."""

    client_email: str
    private_key: str
    private_key_id: str | None = None


def require_google() -> None:
    if find_spec("google") is None or find_spec("google.auth") is None or find_spec("requests") is None:
        raise InvalidInput(
            "the identity of this service needs google-auth",
            field="target.auth.type",
            remedy="pip install 'duetime[google]', or give a key",
        )


class Tokens:
    def __init__(
        self,
        access: CloudAccess,
        vault: Vault,
        guard: AddressGuard,
    ) -> None:
        self._access = access
        self._vault = vault
        self._guard = guard
        self._kept: dict[Hashable, _Kept] = {}
        self._locks: dict[Hashable, asyncio.Lock] = {}

    async def token(
        self,
        auth: IdentityToken | ClientCredentials,
        attempt: TargetAttempt,
        tenant: str,
        url: str,
        place: Place,
        session: _Session,
    ) -> Token:
        """A token for a call to this URL. Raises `InvalidInput`, `NotFound`, `SealBroken`, `NoCredentials`, and what
        the HTTP library raises."""
        if isinstance(auth, IdentityToken) and auth.key is None:
            of_service = audience_of(auth, url)
            self._access.google(tenant, of_service, place)
            return await self._get(("google", of_service), lambda: _identity_of_service(of_service), attempt)
        named = auth.client_secret if isinstance(auth, ClientCredentials) else auth.key
        assert named is not None
        # The token stands for the secret, so it goes only where the secret may go.
        others = [check_url(each, self._guard, field) for field, each in places_of_token(auth, url)]
        secret = await self._vault.value(attempt.tenant_id, named.secret, place, *others)
        attempt.redactor.learn(secret)
        audience = None if isinstance(auth, ClientCredentials) else audience_of(auth, url)
        key = (attempt.tenant_id, auth, audience, blake2b(secret.encode()).digest())

        async def obtain() -> _Kept:
            if isinstance(auth, ClientCredentials):
                return await self._access_token(auth, secret, attempt, session)
            return await self._identity_token(auth, audience_of(auth, url), secret, attempt, session)

        return await self._get(key, obtain, attempt)

    def reject(self, token: Token) -> bool:
        """A receiver has refused a token. Whether another one may help."""
        kept = self._kept.get(token.key)
        if kept is not None and kept.text == token.text:
            del self._kept[token.key]
        return not token.is_new

    async def _get(self, key: Hashable, obtain: Callable[[], Any], attempt: TargetAttempt) -> Token:
        async with self._locks.setdefault(key, asyncio.Lock()):
            kept = self._kept.get(key)
            is_new = kept is None or kept.until <= monotonic()
            if kept is None or is_new:
                kept = await obtain()
                if len(self._kept) >= _MOST:
                    self._kept.clear()
                    self._locks.clear()
                self._kept[key] = kept
        attempt.redactor.learn(kept.text)
        return Token(kept.text, key, is_new)

    async def _access_token(
        self, auth: ClientCredentials, secret: str, attempt: TargetAttempt, session: _Session
    ) -> _Kept:
        form = {"grant_type": "client_credentials"}
        form |= {name: value for name, value in (("scope", auth.scope), ("audience", auth.audience)) if value}
        headers = {}
        if auth.login == "basic":
            login = b64encode(f"{quote_plus(auth.client_id)}:{quote_plus(secret)}".encode()).decode()
            attempt.redactor.learn(login)
            headers["authorization"] = f"Basic {login}"
        else:
            form |= {"client_id": auth.client_id, "client_secret": secret}
        answer = await self._ask(auth.token_url, form, headers, attempt, session)
        return _kept(answer, "access_token", answer.get("expires_in"))

    async def _identity_token(
        self, auth: IdentityToken, audience: str, secret: str, attempt: TargetAttempt, session: _Session
    ) -> _Kept:
        now = attempt.timestamp
        try:
            account = msgspec.json.decode(secret, type=_ServiceAccount)
            claims: dict[str, Any] = {"iss": account.client_email, "sub": account.client_email, "aud": auth.token_url}
            claims |= {"iat": now, "exp": now + _ASSERTION_LIFE, "target_audience": audience}
            headers = {"kid": account.private_key_id} if account.private_key_id else None
            assertion = jwt.encode(claims, account.private_key, "RS256", headers)
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, TypeError, jwt.PyJWTError):
            # Their texts may quote the key.
            raise InvalidInput(
                "the secret is not the JSON key of a service account",
                field="auth.key",
                remedy="store the whole file that Google offers for download",
            ) from None
        attempt.redactor.learn(account.private_key)
        attempt.redactor.learn(assertion)
        answer = await self._ask(auth.token_url, {"grant_type": _GRANT, "assertion": assertion}, {}, attempt, session)
        return _kept(answer, "id_token", None)

    async def _ask(
        self, url: str, form: dict[str, str], headers: dict[str, str], attempt: TargetAttempt, session: _Session
    ) -> dict[str, Any]:
        headers |= {"accept": "application/json", "accept-encoding": "identity", "user-agent": "duetime"}
        try:
            async with session().post(url, data=form, headers=headers, allow_redirects=False) as answer:
                body = await answer.content.read(_LARGEST)
                while len(body) < _LARGEST and (more := await answer.content.read(_LARGEST - len(body))):
                    body += more
                answer.close()
        except aiohttp.ClientError as error:
            if refused_address(error) is not None:
                raise
            text = without_addresses(attempt.redactor.text(f"the token endpoint: {type(error).__name__}: {error}"))
            raise NoCredentials(bounded(text, 500)) from error
        try:
            said = msgspec.json.decode(body, type=dict[str, Any])
        except (msgspec.DecodeError, msgspec.ValidationError):
            said = {}
        if answer.status == 200:
            return said
        why = ": ".join(str(said[name]) for name in ("error", "error_description") if said.get(name))
        text = f"the token endpoint answered {answer.status}{f': {why}' if why else ''}"
        refusal = NoCredentials(bounded(attempt.redactor.text(text), 500))
        refusal.may_retry = answer.status >= 500 or answer.status in _PASSING
        raise refusal


def _kept(answer: dict[str, Any], name: str, life: object) -> _Kept:
    text = answer.get(name)
    if not isinstance(text, str) or not text or not text.isascii() or not text.isprintable() or " " in text:
        refusal = NoCredentials(f"the token endpoint answered without {name}")
        refusal.may_retry = False
        raise refusal
    seconds = float(life) if isinstance(life, int | float | str) and str(life).isdigit() else _life_of(text)
    return _Kept(text, monotonic() + seconds - min(_MARGIN, seconds / 5))


def _life_of(token: str) -> float:
    """How long a JWT is valid, by the clock of its issuer."""
    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        return max(0.0, float(claims["exp"]) - float(claims["iat"]))
    except (jwt.PyJWTError, KeyError, TypeError, ValueError):
        return _UNKNOWN_LIFE


async def _identity_of_service(audience: str) -> _Kept:
    require_google()
    try:
        text = await asyncio.to_thread(_fetch_identity, audience)
    except Exception as error:  # google-auth raises errors of its own and of its transports
        log.warning("Google gives the service no identity token for %s: %s", audience[:200], reason_of(error))
        raise NoCredentials("Google gives the service no identity token; its log says why") from None
    return _kept({"id_token": text}, "id_token", None)


def _fetch_identity(audience: str) -> str:
    from google.auth.transport.requests import Request
    from google.oauth2.id_token import fetch_id_token_credentials

    request = Request()
    found = fetch_id_token_credentials(audience, request)  # type: ignore[no-untyped-call]
    found.refresh(request)
    return str(found.token)
