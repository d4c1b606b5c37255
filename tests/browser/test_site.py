"""The documentation site, as `make docs-site` has built it: every page opens in a browser, axe finds nothing, nothing
is fetched from elsewhere, and every link leads somewhere."""

import os
import re
import threading
from collections.abc import Iterator
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from duetime import __version__
from tests.browser.conftest import TIMEOUT, WIDE
from tests.browser.test_pages import PHONE, violations
from tests.support.command import ROOT

SITE = (ROOT / os.environ["DUETIME_TEST_SITE"]).resolve() if "DUETIME_TEST_SITE" in os.environ else None
FILES = [] if SITE is None else sorted(path.relative_to(SITE) for path in (SITE / __version__).rglob("*.html"))
PAGES = [str(file) for file in FILES if "_static" not in file.parts]
pytestmark = pytest.mark.skipif(SITE is None, reason="there is no site: make docs-site builds and tests it")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def origin() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(SITE))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(browser: Browser) -> Iterator[Page]:
    with browser.new_context(viewport=WIDE, reduced_motion="reduce") as context:
        context.set_default_timeout(TIMEOUT)
        yield context.new_page()


@pytest.fixture
def complaints(page: Page, origin: str) -> Iterator[None]:
    heard: list[str] = []
    hears = {
        "console": lambda message: heard.append(message.text) if message.type in ("error", "warning") else None,
        "pageerror": lambda error: heard.append(str(error)),
        "request": lambda request: (
            None
            if request.url.startswith((origin, "data:", "blob:"))
            else heard.append(f"from elsewhere: {request.url}")
        ),
        "response": lambda answer: heard.append(f"{answer.status} {answer.url}") if answer.status >= 400 else None,
    }
    for name, listener in hears.items():
        page.on(name, listener)  # type: ignore[call-overload]
    yield
    for name, listener in hears.items():
        page.remove_listener(name, listener)
    assert heard == []


@pytest.mark.parametrize("path", PAGES)
def test_a_page_opens(page: Page, origin: str, complaints: None, path: str) -> None:
    page.set_viewport_size(WIDE)
    page.emulate_media(color_scheme="light")
    page.goto(f"{origin}/{path}")
    expect(page.locator("h1").first).to_be_visible()
    wait_for_diagrams(page, "light")
    assert violations(page, "wcag2a", "wcag2aa") == []
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    wait_for_diagrams(page, "dark")
    assert violations(page, "color-contrast") == [], "in the dark"
    page.set_viewport_size(PHONE)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than a phone"


def wait_for_diagrams(page: Page, look: str) -> None:
    expect(page.locator(f".diagram:not([data-drawn={look}])")).to_have_count(0)


def test_the_search_finds_a_page(page: Page, origin: str, complaints: None) -> None:
    page.set_viewport_size(WIDE)
    page.goto(f"{origin}/{__version__}/search.html?q=fence")
    expect(page.locator("#search-results a", has_text="Leases and fences").first).to_be_visible()


def test_the_root_leads_to_the_newest_version_which_the_menu_names(page: Page, origin: str, complaints: None) -> None:
    page.set_viewport_size(WIDE)
    page.goto(f"{origin}/")
    page.wait_for_url(f"{origin}/{__version__}/index.html")
    menu = page.locator(".version-switcher__button").first
    expect(menu).to_contain_text(__version__)
    menu.click()
    expect(page.locator(".version-switcher__menu a").first).to_have_attribute("href", re.compile(f"/{__version__}/"))


def test_the_reader_chooses_light_or_dark(page: Page, origin: str, complaints: None) -> None:
    page.set_viewport_size(WIDE)
    page.goto(f"{origin}/{__version__}/index.html")
    for look in ("light", "dark"):
        page.get_by_role("button", name="Color mode").first.click()
        page.locator(f".theme-change-button[data-mode={look}]").first.click()
        expect(page.locator("html")).to_have_attribute("data-theme", look)
    page.evaluate("localStorage.clear()")


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.ids.add(value)
            if value and ((tag in ("a", "link") and name == "href") or (tag in ("img", "script") and name == "src")):
                self.links.add(value)


@cache
def links_of(file: Path) -> _Links:
    found = _Links()
    found.feed(file.read_text("utf-8"))
    return found


def test_no_link_is_dead() -> None:
    assert SITE is not None
    dead = []
    for path in PAGES:
        for link in links_of(SITE / path).links:
            address, anchor = urldefrag(urljoin(f"/{path}", link))
            if urlsplit(link).scheme in ("http", "https", "mailto", "data"):
                continue
            file = SITE / unquote(urlsplit(address).path).lstrip("/")
            has_place = not anchor or file.suffix != ".html" or unquote(anchor) in links_of(file).ids
            if not (file.is_file() and has_place):
                dead.append(f"{path}: {link}")
    assert dead == []
