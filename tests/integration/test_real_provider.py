"""Single sign-on with a real provider and real processes: node oidc-provider, `duetime up`, and the command line."""

import json
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from tests.support.command import Command
from tests.support.identity_provider import providers_file
from tests.support.node_provider import FormBrowser, NodeProvider
from tests.support.postgres import free_port

RULES = (
    {"group": "ops", "tenant": "default", "role": "admin"},
    {"claim": "client_id", "value": "billing-service", "tenant": "default", "role": "submitter", "queue": "billing"},
)


class Site:
    def __init__(self, folder: Path, provider: NodeProvider, url: str) -> None:
        self.folder = folder
        self.provider = provider
        self.url = url
        self._environ = {"XDG_CONFIG_HOME": str(folder / "config"), "BROWSER": "true", "DUETIME_URL": url}

    def command(self, *arguments: str) -> Command:
        """A command of a user who has no key."""
        return Command(self.folder / "user", *arguments, environ=self._environ)

    def run(self, *arguments: str) -> Command:
        with self.command(*arguments, "--json") as command:
            command.ended()
        return command

    def log_in(self, *arguments: str) -> None:
        """`duetime login`, and a person who does what it says."""
        with self.command("login", *arguments) as command:
            command.until(lambda command: re.search(r"http://\S+(user_code|client_id)=\S+", command.stderr))
            found = re.search(r"http://\S+(user_code|client_id)=\S+", command.stderr)
            assert found is not None
            status, _, text = FormBrowser(login="ann", password="x").open(found[0])
            assert status == 200, text
            assert command.ended() == 0, command

    def me(self, **headers: str) -> Any:
        with urlopen(Request(f"{self.url}/v1/me", headers=headers), timeout=20) as answer:
            return json.loads(answer.read())


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    if (reason := NodeProvider.missing()) is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("sso")
    url = f"http://127.0.0.1:{free_port()}"
    with NodeProvider(url) as provider:
        provider.give(ann=["ops", "others"])
        path = providers_file(folder, node=provider.table(*RULES, logout="provider"))
        environ = {
            "DUETIME_OIDC_PROVIDERS": str(path),
            "DUETIME_PUBLIC_URL": url,
            "DUETIME_PORT": url.rpartition(":")[2],
        }
        with Command(folder / "server", "up", "--json", environ=environ) as up:
            up.until(lambda up: up.lines and up.lines[0]["event"] == "up")
            yield Site(folder, provider, url)


def test_a_browser_logs_in_and_out(site: Site) -> None:
    browser = FormBrowser(login="ann", password="x")
    status, address, _ = browser.open(f"{site.url}/login/sso/node?to=/jobs")
    assert (status, address) == (200, f"{site.url}/jobs")
    cookie = f"duetime_session={browser.cookie('duetime_session')}"
    me = site.me(Cookie=cookie)
    assert (me["role"], me["user"]) == (
        "admin",
        {"provider": "node", "issuer": site.provider.url, "subject": "ann", "email": "ann@example.com"},
    )
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin", "Content-Type": "application/json"}
    with urlopen(Request(f"{site.url}/logout", b"{}", headers, method="POST"), timeout=20) as answer:
        there = json.loads(answer.read())["next"]
    status, address, _ = browser.open(there)
    assert (status, address) == (200, f"{site.url}/"), "the provider accepts the address to return to"
    with pytest.raises(HTTPError):
        site.me(Cookie=cookie)


def test_an_account_without_a_group_is_told_what_to_do(site: Site) -> None:
    status, _, text = FormBrowser(login="bob", password="x").open(f"{site.url}/login/sso/node")
    assert status == 403 and "bob@example.com" in text and "Ask the operator" in text


@pytest.mark.parametrize("way", ["--device", "--browser"])
def test_the_command_line_logs_in_renews_and_logs_out(site: Site, way: str) -> None:
    site.log_in(way)
    (me,) = site.run("whoami").lines
    assert (me["role"], me["user"]["email"]) == ("admin", "ann@example.com")

    path = site.folder / "config" / "duetime" / "logins.json"
    kept = json.loads(path.read_text())
    (login,) = kept.values()
    login["received_at"] -= 290
    path.write_text(json.dumps(kept))
    site.provider.give(ann=["others"])
    refused = site.run("whoami")
    assert refused.ended() != 0 and "no group of this account" in refused.stderr + refused.stdout
    (renewed,) = json.loads(path.read_text()).values()
    assert renewed["id_token"] != login["id_token"] and renewed["received_at"] > time.time() - 60
    site.provider.give(ann=["ops"])

    (left,) = site.run("logout").lines
    assert (left["was_logged_in"], left["revoked"]) == (True, True)
    assert json.loads(path.read_text()) == {}
    assert "needs a key" in (out := site.run("whoami")).stderr + out.stdout


def test_a_service_uses_its_client_credentials(site: Site) -> None:
    me = site.me(Authorization=f"Bearer {site.provider.service_token()}")
    assert (me["role"], me["scope"]["queue"], me["user"]["subject"]) == ("submitter", "billing", "billing-service")
