"""A small OpenID provider inside the test's own process. It behaves, unless a test tells it not to: real providers are
in `tests/support/node_provider.py`."""

import json
import secrets
import time
from base64 import b64decode, urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, unquote_plus, urlsplit

import jwt
from aiohttp import web

from tests.support.signing import jwk, private_key

SECRET = "a+secret/with:signs"
CLIENT, CLI = "duetime", "duetime-cli"


class IdentityProvider:
    """One person is logged in there: `person` has their claims."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.person: dict[str, Any] = {"sub": "ann-1", "email": "ann@example.com", "email_verified": True}
        self.userinfo: dict[str, Any] = {}
        self.key = "one"
        """The name of the key that it signs with."""
        self.more: dict[str, Any] = {}
        """Claims that replace those of the next ID tokens."""
        self.metadata: dict[str, Any] = {}
        """What it publishes instead of the truth."""
        self.asked: list[str] = []
        """The paths of all requests."""
        self.codes: dict[str, dict[str, str]] = {}
        self.devices: dict[str, bool] = {}
        """Device codes, and whether the person has agreed."""
        self.refresh: set[str] = set()
        self.forgets_codes = True
        self.broken = False

    def authorize(self, location: str) -> dict[str, str]:
        """What the person's browser brings back from the login page: the parameters of the callback."""
        asked = dict(parse_qsl(urlsplit(location).query))
        code = secrets.token_urlsafe(8)
        self.codes[code] = asked
        return {"code": code, "state": asked["state"]}

    def id_token(self, client: str, nonce: str | None = None, **more: Any) -> str:
        now = int(time.time())
        claims = {"iss": self.url, "aud": client, "iat": now, "exp": now + 300, "nonce": nonce, **self.person}
        claims |= {**self.more, **more}
        given = {name: value for name, value in claims.items() if value is not None}
        return jwt.encode(given, private_key("ES256", self.key), algorithm="ES256", headers={"kid": self.key})

    @web.middleware
    async def watch(self, request: web.Request, handler: Any) -> web.StreamResponse:
        self.asked.append(request.path)
        if self.broken:
            return web.Response(status=500)
        answer: web.StreamResponse = await handler(request)
        return answer

    async def configuration(self, _: web.Request) -> web.Response:
        published = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?realm=a",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/jwks",
            "userinfo_endpoint": f"{self.url}/userinfo",
            "end_session_endpoint": f"{self.url}/logout",
            "device_authorization_endpoint": f"{self.url}/device",
            "revocation_endpoint": f"{self.url}/revoke",
            "code_challenge_methods_supported": ["S256"],
        }
        found = {name: value for name, value in (published | self.metadata).items() if value is not None}
        return web.json_response(found)

    async def jwks(self, _: web.Request) -> web.Response:
        return web.json_response({"keys": [jwk(name=self.key)]})

    async def about(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer opaque"
        return web.json_response(self.userinfo)

    async def device(self, request: web.Request) -> web.Response:
        form = await request.post()
        code = secrets.token_urlsafe(8)
        self.devices[code] = False
        assert form["client_id"] == CLI
        place = {"verification_uri": f"{self.url}/activate", "user_code": "WDJB-MJHT"}
        return web.json_response({"device_code": code, "expires_in": 60, "interval": 0, **place})

    async def revoke(self, request: web.Request) -> web.Response:
        self.refresh.discard(str((await request.post())["token"]))
        return web.Response()

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        client = form.get("client_id") or self._authenticated(request)
        match form["grant_type"]:
            case "authorization_code":
                asked = self.codes.get(form["code"])
                if self.forgets_codes:
                    self.codes.pop(form["code"], None)
                proof = urlsafe_b64encode(sha256(form["code_verifier"].encode()).digest()).decode().rstrip("=")
                if (
                    asked is None
                    or proof != asked["code_challenge"]
                    or asked["client_id"] != client
                    or form["redirect_uri"] != asked["redirect_uri"]
                ):
                    return _refused("invalid_grant")
                return self._tokens(client, asked["nonce"])
            case "urn:ietf:params:oauth:grant-type:device_code":
                if form["device_code"] not in self.devices:
                    return _refused("expired_token")
                return self._tokens(client) if self.devices[form["device_code"]] else _refused("authorization_pending")
            case "refresh_token":
                if form["refresh_token"] not in self.refresh:
                    return _refused("invalid_grant")
                self.refresh.discard(form["refresh_token"])
                return self._tokens(client)
        return _refused("unsupported_grant_type")

    def _tokens(self, client: str, nonce: str | None = None) -> web.Response:
        renewal = secrets.token_urlsafe(8)
        self.refresh.add(renewal)
        tokens = {"access_token": "opaque", "token_type": "Bearer", "refresh_token": renewal}
        return web.json_response({**tokens, "id_token": self.id_token(client, nonce)})

    def _authenticated(self, request: web.Request) -> str:
        name, _, secret = b64decode(request.headers["Authorization"].removeprefix("Basic ")).decode().partition(":")
        assert unquote_plus(secret) == SECRET
        return unquote_plus(name)


def _refused(code: str) -> web.Response:
    return web.json_response({"error": code}, status=400)


@asynccontextmanager
async def identity_provider() -> AsyncIterator[IdentityProvider]:
    provider = IdentityProvider("")
    application = web.Application(middlewares=[provider.watch])
    application.router.add_get("/.well-known/openid-configuration", provider.configuration)
    application.router.add_get("/jwks", provider.jwks)
    application.router.add_get("/userinfo", provider.about)
    for path in ("token", "device", "revoke"):
        application.router.add_post(f"/{path}", getattr(provider, path))
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    assert site._server is not None
    port = site._server.sockets[0].getsockname()[1]  # type: ignore[attr-defined]
    provider.url = f"http://127.0.0.1:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()


def providers_file(folder: Path, **tables: dict[str, Any]) -> Path:
    """A file of providers; TOML accepts JSON's texts, lists and (in lines) numbers."""
    lines = []
    for name, table in tables.items():
        rules = table.pop("access")
        lines += [f"[{name}]", *(f"{field} = {json.dumps(value)}" for field, value in table.items())]
        for rule in rules:
            lines += [f"[[{name}.access]]", *(f"{field} = {json.dumps(value)}" for field, value in rule.items())]
    path = folder / "providers.toml"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def table_of(provider: IdentityProvider, *access: dict[str, str], **more: Any) -> dict[str, Any]:
    """The table of a provider, in a network that is allowed for it alone."""
    given = {
        "issuer": provider.url,
        "client_id": CLIENT,
        "client_secret": SECRET,
        "cli_client_id": CLI,
        "networks": ["127.0.0.0/8"],
        "access": list(access),
    }
    return {name: value for name, value in (given | more).items() if value is not None}
