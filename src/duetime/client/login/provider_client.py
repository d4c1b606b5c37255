"""An identity provider as the command line talks to it: its configuration, logins by device and by browser, renewal.

Tokens come from the provider's own token endpoint, over TLS, so their signatures are the server's to check. Here it is
checked that they are what was asked for: of this issuer, for this client, with this `nonce`.
"""

import asyncio
import html
import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from hmac import compare_digest
from secrets import token_urlsafe
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp

from duetime.client.login.stored_logins import Login
from duetime.clock import SystemClock, monotonic
from duetime.crypto.pkce import challenge_of, new_verifier
from duetime.errors import AccessDenied, InvalidInput, ServerUnavailable, reason_of
from duetime.model.oidc_metadata import (
    MOST_BYTES,
    Metadata,
    TokenAnswer,
    configuration_url,
    read_metadata,
    read_tokens,
)
from duetime.wire.sso import ProviderView

DEVICE = "urn:ietf:params:oauth:grant-type:device_code"
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = aiohttp.ClientTimeout(total=30)
_LONGEST_LOGIN = 600.0
_MOST_LINE = 16 * 1024
_AGAIN = "log in again: duetime login"
_PAGE = b"""HTTP/1.1 200 OK\r
Content-Type: text/html; charset=utf-8\r
Content-Security-Policy: default-src 'none'\r
Connection: close\r
\r
<!doctype html><title>duetime</title><h1>%s</h1><p>You can close this page and go back to the terminal.</p>
"""
_clock = SystemClock()


class DeviceCode(NamedTuple):
    """What the person opens on any device."""

    address: str
    code: str
    whole_address: str | None
    """With the code in it."""


class ProviderClient:
    def __init__(self, http: aiohttp.ClientSession, issuer: str, metadata: Metadata) -> None:
        self._http = http
        self.issuer = issuer
        self.metadata = metadata

    @classmethod
    async def at(cls, http: aiohttp.ClientSession, issuer: str) -> "ProviderClient":
        """Raises `ServerUnavailable`, and `InvalidInput` for an address without TLS."""
        _check_secure(issuer)
        status, document = await _ask(http, "GET", configuration_url(issuer), None)
        if status != 200:
            raise ServerUnavailable(f"the identity provider {issuer} answered {status}", remedy="try again later")
        metadata = read_metadata(document, issuer)
        for each in (metadata.token_endpoint, metadata.authorization_endpoint):
            _check_secure(each)
        return cls(http, issuer, metadata)

    async def by_device(self, provider: ProviderView, show: Callable[[DeviceCode], None]) -> Login:
        """Log in with a code that the person enters on any device (RFC 8628)."""
        endpoint, client = self.metadata.device_authorization_endpoint, provider.cli_client_id
        assert endpoint is not None and client is not None
        _check_secure(endpoint)
        form = {"client_id": client, "scope": " ".join(provider.cli_scopes)}
        status, given = await _ask(self._http, "POST", endpoint, form)
        try:
            code, lasts = str(given["device_code"]), float(given["expires_in"])
            pause = float(given.get("interval", 5))
            show(DeviceCode(given["verification_uri"], given["user_code"], given.get("verification_uri_complete")))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise _refused(status, given) from None
        until = monotonic() + min(lasts, 2 * _LONGEST_LOGIN)
        while monotonic() < until:
            await asyncio.sleep(pause)
            form = {"grant_type": DEVICE, "device_code": code, "client_id": client}
            status, given = await _ask(self._http, "POST", self.metadata.token_endpoint, form)
            match given.get("error") if isinstance(given, dict) else None:
                case "authorization_pending":
                    continue
                case "slow_down":
                    pause += 5
                case _:
                    return self._login(status, given, provider, nonce=None)
        raise AccessDenied("the code has expired", remedy=_AGAIN)

    async def by_browser(self, provider: ProviderView, show: Callable[[str], None]) -> Login:
        """Log in with a browser on this machine: the provider sends it back to a port here (RFC 8252)."""
        client = provider.cli_client_id
        assert client is not None
        state, nonce, verifier = token_urlsafe(32), token_urlsafe(32), new_verifier()
        wanted = urlsplit(provider.cli_redirect_uri)
        if wanted.scheme != "http" or wanted.hostname not in _LOOPBACK:
            # The server chooses it: no port of this machine is opened to others.
            raise InvalidInput(
                f"the server names {provider.cli_redirect_uri[:200]!r}, which is not an address of this machine",
                remedy="ask its operator for a cli_redirect_uri such as http://127.0.0.1/callback",
            )
        answered: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with asyncio.timeout(10):
                    line = (await reader.readuntil(b"\r\n")).decode("latin-1")
                    while await reader.readuntil(b"\r\n") != b"\r\n":
                        pass
                target = urlsplit(line.split(" ")[1])
                given = dict(parse_qsl(target.query))
                # Any page can make the browser open this port: only the answer to this login counts.
                known = target.path == (wanted.path or "/") and compare_digest(
                    given.get("state", "").encode(), state.encode()
                )
                title = "Logged in" if known and "code" in given else "This is not the answer to a login"
                writer.write(_PAGE % html.escape(title).encode())
                await writer.drain()
                if known and not answered.done():
                    answered.set_result(given)
            except (OSError, ValueError, IndexError, EOFError, TimeoutError, asyncio.LimitOverrunError):
                pass
            finally:
                writer.close()

        host = str(wanted.hostname)
        try:
            server = await asyncio.start_server(serve, host, wanted.port or 0, limit=_MOST_LINE)
        except OSError as error:
            raise InvalidInput(
                f"the port {wanted.port} of this machine cannot be used: {error.strerror}", remedy="use --device"
            ) from None
        port = server.sockets[0].getsockname()[1]
        place = f"[{host}]" if ":" in host else host
        redirect = f"http://{place}:{port}{wanted.path}"
        asked = {
            "response_type": "code",
            "client_id": client,
            "redirect_uri": redirect,
            "scope": " ".join(provider.cli_scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge_of(verifier),
            "code_challenge_method": "S256",
        }
        if "offline_access" in provider.cli_scopes:
            asked["prompt"] = "consent"  # OpenID Connect Core, 11: else no refresh token is given
        endpoint = self.metadata.authorization_endpoint
        async with server:
            show(f"{endpoint}{'&' if '?' in endpoint else '?'}{urlencode(asked)}")
            try:
                async with asyncio.timeout(_LONGEST_LOGIN):
                    given = await answered
            except TimeoutError:
                raise AccessDenied("the login took longer than ten minutes", remedy=_AGAIN) from None
        if given.get("iss", self.issuer) != self.issuer:
            raise AccessDenied("another provider has answered", remedy=_AGAIN)
        if "code" not in given:
            raise _refused(400, given)
        form = {
            "grant_type": "authorization_code",
            "code": given["code"],
            "redirect_uri": redirect,
            "client_id": client,
            "code_verifier": verifier,
        }
        status, tokens = await _ask(self._http, "POST", self.metadata.token_endpoint, form)
        return self._login(status, tokens, provider, nonce=nonce)

    async def renewed(self, login: Login) -> Login:
        """The login with a new token. Raises `AccessDenied` if the provider does not give one any more."""
        if login.refresh_token is None:
            raise AccessDenied("the login has expired", remedy=_AGAIN)
        form = {
            "grant_type": "refresh_token",
            "refresh_token": login.refresh_token,
            "client_id": login.client_id,
            "scope": " ".join(login.scopes),
        }
        status, given = await _ask(self._http, "POST", self.metadata.token_endpoint, form)
        if status >= 500:
            raise ServerUnavailable(f"the identity provider {self.issuer} answered {status}", remedy="try again later")
        about = {"provider": login.provider, "client_id": login.client_id, "scopes": login.scopes}
        return self._checked(_tokens(status, given), about, None, login.refresh_token)

    async def revoke(self, login: Login) -> bool:
        """Whether the provider has forgotten the refresh token."""
        endpoint = self.metadata.revocation_endpoint
        if endpoint is None or login.refresh_token is None:
            return False
        _check_secure(endpoint)
        form = {"token": login.refresh_token, "token_type_hint": "refresh_token", "client_id": login.client_id}
        status, _ = await _ask(self._http, "POST", endpoint, form)
        return status == 200

    def _login(self, status: int, given: Any, provider: ProviderView, nonce: str | None) -> Login:
        about = {"provider": provider.name, "client_id": provider.cli_client_id, "scopes": provider.cli_scopes}
        return self._checked(_tokens(status, given), about, nonce, None)

    def _checked(self, tokens: TokenAnswer, about: Mapping[str, Any], nonce: str | None, kept: str | None) -> Login:
        if tokens.id_token is None:
            raise AccessDenied("the identity provider gave no ID token", remedy="its client needs the scope openid")
        claims = _claims(tokens.id_token)
        audience = claims.get("aud")
        listed = audience if isinstance(audience, list) else [audience]
        if claims.get("iss") != self.issuer or about["client_id"] not in listed:
            raise AccessDenied("the token is of another issuer, or for another client", remedy=_AGAIN)
        if nonce is not None and not compare_digest(str(claims.get("nonce")).encode(), nonce.encode()):
            raise AccessDenied("the token belongs to another login", remedy=_AGAIN)
        try:
            lasts = float(claims["exp"]) - float(claims["iat"])
        except (KeyError, TypeError, ValueError):
            raise AccessDenied("the token does not say how long it is valid", remedy=_AGAIN) from None
        return Login(
            issuer=self.issuer,
            id_token=tokens.id_token,
            refresh_token=tokens.refresh_token or kept,
            received_at=_clock.now().timestamp(),
            lasts=lasts,
            **about,
        )


def _tokens(status: int, given: Any) -> TokenAnswer:
    if status != 200:
        raise _refused(status, given)
    return read_tokens(given)


def _refused(status: int, given: Any) -> AccessDenied:
    code = given.get("error") if isinstance(given, Mapping) else None
    said = given.get("error_description") if isinstance(given, Mapping) else None
    detail = f"{code}{f': {said}' if said else ''}" if code else f"it answered {status}"
    return AccessDenied(f"the identity provider refused: {detail[:300]}", remedy=_AGAIN)


def _claims(token: str) -> Mapping[str, Any]:
    try:
        body = token.split(".")[1]
        found = json.loads(urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, IndexError):
        found = None
    return found if isinstance(found, dict) else {}


def _check_secure(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
        raise InvalidInput(
            f"the identity provider is at {url[:200]!r}, without TLS: tokens could be read on their way",
            remedy="its address must begin with https://",
        )


async def _ask(http: aiohttp.ClientSession, method: str, url: str, form: Mapping[str, str] | None) -> tuple[int, Any]:
    headers = {"Accept": "application/json"}
    try:
        async with http.request(
            method, url, data=form, headers=headers, timeout=_TIMEOUT, allow_redirects=False
        ) as answer:
            body = await answer.content.read(MOST_BYTES)
            while len(body) < MOST_BYTES and (more := await answer.content.read(MOST_BYTES - len(body))):
                body += more
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise ServerUnavailable(
            f"the identity provider cannot be reached at {url[:200]}: {reason_of(error)}", remedy="try again later"
        ) from None
    try:
        return answer.status, json.loads(body)
    except ValueError:
        return answer.status, None
