"""`duetime login`: this user's login at a server, kept in a private file, renewed, and used when no key is set."""

import asyncio
import json
import stat
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp
import msgspec
import pytest

from duetime import AsyncClient
from duetime.cli import login as command
from duetime.client.login.provider_client import ProviderClient
from duetime.client.login.stored_logins import Login, StoredLogins
from duetime.errors import AccessDenied, DuetimeError, InvalidInput, ServerUnavailable
from duetime.settings import Settings
from duetime.wire.sso import ProviderView
from tests.support.identity_provider import IdentityProvider, identity_provider, providers_file, table_of
from tests.support.served import Served, served

RULES = ({"group": "ops", "tenant": "default", "role": "admin"},)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
async def provider() -> AsyncIterator[IdentityProvider]:
    async with identity_provider() as found:
        found.person["groups"] = ["ops"]
        yield found


@pytest.fixture
async def api(tmp_path: Path, provider: IdentityProvider) -> AsyncIterator[Served]:
    path = providers_file(tmp_path, acme=table_of(provider, *RULES))
    async with served(f"sqlite:///{tmp_path}/duetime.db", oidc_providers=path, public_url="http://x.test") as found:
        yield found


async def log_in(api: Served, *, device: bool = False, browser: bool = False, name: str | None = None) -> Login:
    return await command._log_in(Settings(), api.url, name, device=device, browser=browser)


def stored(api: Served, **changes: object) -> Login:
    """The stored login, changed as if this had happened."""
    with StoredLogins().changing() as logins:
        found = logins.login(api.url)
        assert found is not None
        changed: Login = msgspec.structs.replace(found, **changes)
        logins.put(api.url, changed)
    return changed


@pytest.fixture
def agrees(provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A person who enters every code that a command shows."""
    shown: list[str] = []

    def agree(code: object) -> None:
        shown.append(str(code))
        provider.devices = dict.fromkeys(provider.devices, True)

    monkeypatch.setattr(command, "_show_code", agree)
    return shown


async def test_a_login_by_device_serves_clients_without_a_key(
    api: Served, provider: IdentityProvider, agrees: list[str]
) -> None:
    assert (await log_in(api)).provider == "acme" and "WDJB-MJHT" in agrees[0]
    path = StoredLogins().path
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    async with AsyncClient(api.url) as client:
        me = await client.get_me()
        assert me.user is not None and (me.user.email, me.role) == ("ann@example.com", "admin")
        async with asyncio.timeout(20):  # streams take the login too
            events = client.watch_events()
            waiting = asyncio.ensure_future(anext(events))
            while not waiting.done():
                await client.create_job("t", run_in="1h")
                await asyncio.wait([waiting], timeout=0.2)
        assert waiting.result()
    async with AsyncClient(api.url, api.root) as client:
        assert (await client.get_me()).role == "root", "a key that is given comes first"
    assert provider.asked.count("/token") == 1


async def test_a_login_by_browser(api: Served, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[asyncio.Task[None]] = []

    async def follow(address: str) -> None:
        given = provider.authorize(address)
        back = dict(parse_qsl(urlsplit(address).query))["redirect_uri"]
        async with aiohttp.ClientSession() as http:
            for wrong in ({"code": "x", "state": "y"}, {}):  # another page guesses the port
                async with http.get(f"{back}?{urlencode(wrong)}") as answer:
                    assert "not the answer" in await answer.text()
            async with http.get(f"{back}?{urlencode(given)}") as answer:
                assert "Logged in" in await answer.text()

    monkeypatch.setattr(command, "_open", lambda address: opened.append(asyncio.ensure_future(follow(address))))
    assert (await log_in(api, browser=True)).refresh_token is not None
    await opened[0]
    assert provider.codes == {}


async def test_a_token_is_renewed_once_by_all_processes(
    api: Served, provider: IdentityProvider, agrees: list[str]
) -> None:
    await log_in(api)
    old = stored(api, received_at=time.time() - 290)
    clients = [AsyncClient(api.url) for _ in range(5)]
    roles = await asyncio.gather(*(client.get_me() for client in clients))
    assert {each.role for each in roles} == {"admin"}
    assert provider.asked.count("/token") == 2, "a refresh token is used once"
    new = StoredLogins().login(api.url)
    assert new is not None and new.refresh_token not in (None, old.refresh_token)
    provider.refresh.clear()  # the account was closed
    stored(api, received_at=time.time() - 290)
    late = AsyncClient(api.url)
    with pytest.raises(AccessDenied, match="invalid_grant"):
        await late.get_me()
    provider.broken = True
    async with AsyncClient(api.url) as client:
        assert (await client.get_me()).role == "admin", "the old token is valid for some seconds more"
    stored(api, received_at=time.time() - 400)
    for client in (*clients, late):
        await client.close()
    async with AsyncClient(api.url, tries=1) as client:
        with pytest.raises(ServerUnavailable):
            await client.get_me()


async def test_a_removed_group_counts_from_the_next_token(
    api: Served, provider: IdentityProvider, agrees: list[str]
) -> None:
    await log_in(api)
    provider.person["groups"] = []
    stored(api, received_at=time.time() - 290)
    async with AsyncClient(api.url) as client:
        with pytest.raises(DuetimeError, match="no group of this account"):
            await client.get_me()


async def test_logging_out_forgets_here_and_there(api: Served, provider: IdentityProvider, agrees: list[str]) -> None:
    made = await log_in(api)
    assert provider.refresh == {made.refresh_token}
    assert await command._revoke(made) and provider.refresh == set()
    with StoredLogins().changing() as logins:
        logins.remove(api.url)
    assert StoredLogins().login(api.url) is None
    async with AsyncClient(api.url) as client:
        with pytest.raises(DuetimeError, match="needs a key"):
            await client.get_me()


async def test_tokens_go_to_their_own_server_only(api: Served, agrees: list[str]) -> None:
    await log_in(api)
    assert StoredLogins().login(api.url.replace("127.0.0.1", "localhost")) is None
    assert StoredLogins().login(f"{api.url}/") is not None


async def test_a_file_that_others_can_read_is_refused(api: Served, agrees: list[str]) -> None:
    await log_in(api)
    StoredLogins().path.chmod(0o640)
    with pytest.raises(AccessDenied, match="other users can read"):
        AsyncClient(api.url)
    StoredLogins().path.chmod(0o600)
    StoredLogins().path.write_text("{", encoding="utf-8")
    with pytest.raises(InvalidInput, match="cannot be read"):
        AsyncClient(api.url)


async def test_what_cannot_be_done_is_said(api: Served, provider: IdentityProvider, agrees: list[str]) -> None:
    with pytest.raises(InvalidInput, match="no provider 'other'"):
        await log_in(api, name="other")
    provider.metadata = {"device_authorization_endpoint": None}
    with pytest.raises(InvalidInput, match="no device login"):
        await log_in(api, device=True)
    provider.metadata = {"issuer": "https://evil.example"}
    with pytest.raises(InvalidInput, match="names the issuer"):
        await log_in(api)
    provider.metadata = {"token_endpoint": "http://evil.example/token"}
    with pytest.raises(InvalidInput, match="without TLS"):
        await log_in(api)
    provider.metadata = {}
    for wrong in ({"iss": "https://evil.example"}, {"aud": "another"}):
        provider.more = wrong
        with pytest.raises(AccessDenied, match="another issuer"):
            await log_in(api)
    provider.more = {}
    async with aiohttp.ClientSession() as http:
        there = await ProviderClient.at(http, provider.url)
        for place in ("http://0.0.0.0/callback", "http://evil.example/", "https://127.0.0.1/"):
            about = {"name": "x", "title": "x", "issuer": provider.url, "login_path": "/", "cli_client_id": "c"}
            view = ProviderView(**about, cli_redirect_uri=place, cli_scopes=("openid",))
            with pytest.raises(InvalidInput, match="not an address of this machine"):
                await there.by_browser(view, print)
        with pytest.raises(InvalidInput, match="without TLS"):
            await ProviderClient.at(http, "http://id.example.com")


def test_the_file_holds_what_is_needed_and_no_more(tmp_path: Path) -> None:
    made = Login("acme", "https://id.example.com", "c", ("openid",), "a.b.c", None, 1.0, 2.0)
    with StoredLogins(tmp_path).changing() as logins:
        logins.put("https://one", made)
        logins.put("https://two/", made)
    assert sorted(json.loads((tmp_path / "logins.json").read_bytes())) == ["https://one", "https://two"]
    with StoredLogins(tmp_path).changing() as logins:
        logins.remove("https://one/")
    assert StoredLogins(tmp_path).login("https://two") == made
    assert not made.is_fresh
