"""A real Chromium on a running server with real jobs. Whatever a page says on its console fails the test.

One server and one browser serve the tests of a process, and end with them: Playwright holds the event loop of its
thread. Each test has a context (cookies, storage) of its own.
"""

import json
import os
import shutil
from collections.abc import Iterator
from typing import Any
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, ViewportSize, expect, sync_playwright

from tests.support.command import ROOT, Command, tracebacks

SHOTS = ROOT / "tests" / "browser" / "screenshots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
SETTING = "DUETIME_TEST_CHROMIUM"
TIMEOUT = 20_000
"""Milliseconds."""
ELSEWHERE = "jobs.example.test"
"""A name under which the browser finds this machine, and does not know that it does."""
WIDE: ViewportSize = {"width": 1360, "height": 900}


def chromium() -> str:
    named = os.environ.get(SETTING)
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"there is no Chromium: install your system's chromium, or name one in {SETTING}")
    return found


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    path = chromium()
    with sync_playwright() as playwright:
        args = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {ELSEWHERE} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=path, args=args)
        yield browser
        browser.close()


class Shop:
    """The server, asked with its root key, or another one."""

    def __init__(self, url: str, key: str) -> None:
        self.url = url
        self.key = key

    def ask(self, method: str, path: str, body: Any = None, key: str | None = None) -> Any:
        headers = {"Authorization": f"Bearer {key or self.key}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urlopen(Request(self.url + path, data, headers, method=method), timeout=20) as answer:
            return json.loads(answer.read())

    def submit(self, task: str, **fields: Any) -> Any:
        return self.ask("POST", "/v1/jobs", {"task": f"shop.{task}", **fields})

    def make_key(self, role: str) -> str:
        made = self.ask("POST", "/v1/admin/keys", {"role": role, "name": f"a {role}"})
        return str(made["key"])


@pytest.fixture(scope="package")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    folder = tmp_path_factory.mktemp("shop")
    with Command(folder, "up", "tests.browser.shop:app", "--json") as up:
        up.until(lambda up: up.lines and up.lines[0]["event"] == "up")
        shop = Shop(up.lines[0]["url"], (folder / "duetime-data" / "admin-key").read_text().strip())
        fill(shop)
        yield shop
        assert tracebacks(up.stderr) == [] or "was refused" in up.stderr


SETTINGS: dict[str, Any] = {
    "subscriptions/on-call": {
        "to": {"type": "webhook", "url": "https://hooks.example.com/duetime"},
        "topics": ["job.silent", "checkin.late", "queue.late"],
    },
    "alerts/silent-report": {"figure": "no_success", "threshold": 90_000, "task": "shop.send_report"},
    "alerts/long-queue": {"figure": "backlog", "threshold": 1000, "queue": "mail"},
    "checkins/backup": {"cron": "0 4 * * *", "tz": "Europe/Berlin", "description": "The dump of the old database"},
    "calendars/holidays": {"dates": ["2040-12-24", "2040-12-25", "2040-12-26", "2041-01-01"]},
    "secrets/api-token": {"value": "s3cret-of-the-shop", "hosts": ["api.example.com"]},
    "sources/orders": {
        "broker": {"type": "redis", "address": "redis.example.com:6379", "stream": "orders"},
        "job": {"task": "shop.ping"},
        "paused": True,
    },
    "issuers/our-app": {
        "issuer": "https://app.example.com",
        "jwks_url": "https://app.example.com/.well-known/jwks.json",
    },
}


def fill(shop: Shop) -> None:
    """Some of everything that pages show."""
    shop.submit("ping", name="Heartbeat", every="2s", key="heartbeat", tags=["ops"])
    shop.submit(
        "send_report",
        name="Weekday report",
        when="every weekday at 9am",
        tz="Europe/Berlin",
        args={"to": "ops@example.com", "secret": "hunter2"},
        tags=["reports", "mail"],
        queue="mail",
    )
    shop.submit(
        "send_report", name="Month end", cron="0 6 1 * *", args={"to": "cfo@example.com"}, queue="mail", priority="HIGH"
    )
    shop.submit("rebuild", name="Rebuild the index", every="45m", queue="slow", priority="LOW")
    shop.submit("ping", name="Nightly", cron="30 2 * * *", tz="Europe/Berlin")
    for order in range(7):
        shop.submit("charge", args={"order": order}, retries=0, queue="money")
    for number in range(20):
        shop.submit(
            "send_report",
            name=f"Receipt {number}",
            args={"to": f"customer{number}@example.com"},
            run_in=f"{5 + number * 2}m",
            queue="mail",
        )
    shop.submit("nobody_has_this", run_in="1h")
    nodes = {
        "reserve": {"task": "shop.ping"},
        "pack": {"task": "shop.ping", "depends_on": ["reserve"]},
        "pay": {"task": "shop.charge", "args": {"order": 17}, "retries": 0, "depends_on": ["reserve"]},
        "ship": {"task": "shop.ping", "depends_on": ["pack", "pay"]},
    }
    shop.ask("POST", "/v1/bulk-actions", {"action": "pause", "jobs": {"tag": "none-has-this"}})
    shop.ask("POST", "/v1/graphs", {"name": "Order 17", "nodes": nodes})
    for path, body in SETTINGS.items():
        shop.ask("PUT", f"/v1/{path}", body)


class Looking:
    """A page, and everything that it complained about."""

    def __init__(self, page: Page, shop: Shop, *, pictures: bool = True) -> None:
        self.page = page
        self.shop = shop
        self._pictures = pictures
        self.complaints: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.complaints.append(f"{error}"))
        page.on("request", self._asked)

    def go(self, path: str) -> Page:
        self.page.goto(self.shop.url + path)
        return self.page

    def shoot(self, name: str, *, whole: bool = True) -> None:
        if not self._pictures:
            return
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png", full_page=whole)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.shop.url, "data:", "blob:")):
            self.complaints.append(f"something was asked for elsewhere: {request.url}")


def log_in(context: BrowserContext, shop: Shop, key: str) -> None:
    answer = context.request.post(f"{shop.url}/login", data={"key": key})
    assert answer.ok, answer.text()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport=WIDE, timezone_id="Europe/Berlin", reduced_motion="reduce")
    context.set_default_timeout(TIMEOUT)
    expect.set_options(timeout=TIMEOUT)
    yield context
    context.close()


@pytest.fixture
def looking(context: BrowserContext, shop: Shop, pytestconfig: pytest.Config) -> Iterator[Looking]:
    """Logged in with the root key."""
    log_in(context, shop, shop.key)
    looking = Looking(context.new_page(), shop, pictures=not pytestconfig.getoption("--short"))
    yield looking
    assert looking.complaints == []
