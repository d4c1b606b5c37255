"""Logging in through a real provider (node oidc-provider): the button, the way back, refusals, the way out."""

import json
from collections.abc import Iterator
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import SHOTS
from tests.browser.test_pages import violations
from tests.support.command import Command
from tests.support.identity_provider import providers_file
from tests.support.node_provider import NodeProvider
from tests.support.postgres import free_port

RULES = (
    {"group": "ops", "tenant": "default", "role": "operator"},
    {"group": "ops", "tenant": "acme", "role": "viewer"},
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if (reason := NodeProvider.missing()) is not None:
        pytest.skip(reason)
    folder, port = tmp_path_factory.mktemp("sso"), str(free_port())
    url = f"http://127.0.0.1:{port}"
    with NodeProvider(url) as provider:
        provider.give(ann=["ops"])
        path = providers_file(folder, node=provider.table(*RULES, logout="provider"))
        environ = {"DUETIME_OIDC_PROVIDERS": str(path), "DUETIME_PUBLIC_URL": url, "DUETIME_PORT": port}
        with Command(folder, "up", "--json", environ=environ) as up:
            up.until(lambda up: up.lines and up.lines[0]["event"] == "up")
            key = (folder / "duetime-data" / "admin-key").read_text().strip()
            headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
            urlopen(Request(f"{url}/v1/admin/tenants", json.dumps({"name": "acme"}).encode(), headers), timeout=20)
            yield url


def log_in_there(page: Page, account: str) -> None:
    """The pages of the provider: the account, and the consent."""
    page.get_by_placeholder("Enter any login").fill(account)
    page.get_by_placeholder("and password").fill("x")
    page.get_by_role("button", name="Sign-in").click()
    page.get_by_role("button", name="Continue").click()


def test_a_person_logs_in_chooses_a_tenant_and_logs_out(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"{site}/queues?x=1")
    button = page.get_by_role("link", name="Log in with Node")
    expect(button).to_be_visible()
    assert violations(page) == []
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / "login-sso.png")
    button.click()
    log_in_there(page, "ann")
    page.wait_for_url(lambda url: url.startswith(f"{site}/queues?x=1"))
    expect(page.get_by_text("ann@example.com (operator)")).to_be_visible()

    page.get_by_label("Tenant").select_option("acme")
    expect(page.get_by_text("ann@example.com (viewer)")).to_be_visible()
    assert violations(page) == []
    page.goto(f"{site}/sessions?tenant=acme")
    expect(page.get_by_text("This session")).to_be_visible()

    page.goto(f"{site}/jobs?tenant=other")
    expect(page.get_by_text("which this login cannot open")).to_be_visible()
    page.get_by_role("link", name="Open your own tenant").click()
    expect(page.get_by_text("ann@example.com (operator)")).to_be_visible()

    page.get_by_role("button", name="Log out").click()
    page.get_by_role("button", name="Yes, sign me out").click()  # the provider asks
    page.wait_for_url(f"{site}/")
    expect(page.get_by_role("link", name="Log in with Node")).to_be_visible()
    assert complaints == []


def test_a_person_without_access_reads_why(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    page.goto(f"{site}/login/sso/node")
    log_in_there(page, "bob")
    expect(page.get_by_role("heading", name="This account has no access")).to_be_visible()
    expect(page.get_by_text("bob@example.com")).to_be_visible()
    assert violations(page) == []
    page.screenshot(path=SHOTS / "login-refused.png")
    page.get_by_role("link", name="Other ways to log in").click()
    expect(page.get_by_label("API key")).to_be_visible()


def test_a_person_who_cancels_can_try_again(context: BrowserContext, site: str) -> None:
    page = context.new_page()
    page.goto(site)
    page.get_by_role("link", name="Log in with Node").click()
    page.get_by_role("link", name="Cancel").click()
    expect(page.get_by_role("heading", name="Node refused the login")).to_be_visible()
    page.get_by_role("link", name="Try again").click()
    expect(page.get_by_placeholder("Enter any login")).to_be_visible()
