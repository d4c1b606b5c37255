"""A search says how far it is, and that nothing matches only at the end."""

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Looking, Shop
from tests.browser.test_pages import violations

FAR = "2031-05-04T03:02:01Z"
SLOW_CLOCK = "let at = 0; performance.now = () => (at += 3000);"
"""To the page, each request takes seconds."""


class Sparse:
    """So many empty pages, then the end with `items`."""

    def __init__(self, page: Page, path: str, empty: int, items: list[Any]) -> None:
        self.empty, self.items, self.asked = empty, items, 0
        page.route(re.compile(rf"{path}\?"), self._answer)

    def _answer(self, route: Route) -> None:
        query = parse_qs(urlparse(route.request.url).query)
        place = int(query.get("cursor", ["0"])[0])
        self.asked += 1
        body: dict[str, Any] = {"items": [], "next_cursor": str(place + 1), "searched_to": FAR, "in_streams": []}
        if place >= self.empty:
            body |= {"items": self.items, "next_cursor": None, "searched_to": None}
        route.fulfill(status=200, content_type="application/json", body=json.dumps(body))


@pytest.fixture
def one_job(shop: Shop) -> Iterator[list[Any]]:
    yield shop.ask("GET", "/v1/jobs?name=Heartbeat")["items"]


def test_a_search_reads_on_until_it_finds_something(looking: Looking, one_job: list[Any]) -> None:
    sparse = Sparse(looking.page, "/v1/jobs", 20, one_job)
    page = looking.go("/jobs?task=shop.ping")
    expect(page.get_by_role("link", name="Heartbeat")).to_be_visible()
    assert sparse.asked == 21
    sparse.asked = 0
    page.keyboard.press("Control+k")
    page.get_by_role("searchbox", name="Open a page, job or run").fill("hear")
    expect(page.get_by_role("dialog").get_by_role("link", name="Heartbeat")).to_be_visible()
    assert sparse.asked == 21


@pytest.mark.parametrize(("path", "api", "word"), [
    ("/jobs?task=shop.rare", "/v1/jobs", "jobs"),
    ("/runs?task=shop.rare", "/v1/runs", "runs"),
    ("/dead-letters?view=list&task=shop.rare", "/v1/dead-letters", "dead letters"),
])  # fmt: skip
def test_a_long_search_can_be_continued(looking: Looking, path: str, api: str, word: str) -> None:
    looking.page.add_init_script(SLOW_CLOCK)
    Sparse(looking.page, api, 9, [])
    page = looking.go(path)
    more = page.get_by_role("button", name="Search further")
    expect(more).to_be_visible()
    expect(page.get_by_text(f"No {word} found so far.")).to_be_visible()
    expect(page.get_by_text("back to 4 May 2031, 05:02:01")).to_be_visible()
    expect(page.get_by_text(f"No {word} match.")).to_have_count(0)
    assert violations(page) == []
    more.click()
    page.wait_for_url("**page=2*")
    expect(page.get_by_text(f"No {word} found so far.")).to_be_visible()
    page.get_by_role("button", name="Search further").click()
    expect(page.get_by_text(f"No {word} match.")).to_be_visible()


def test_a_jump_does_not_say_that_there_is_nothing_before_the_end(looking: Looking) -> None:
    looking.page.add_init_script(SLOW_CLOCK)
    page = looking.go("/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    Sparse(looking.page, "/v1/jobs", 50, [])
    page.keyboard.press("Control+k")
    page.get_by_role("searchbox", name="Open a page, job or run").fill("zzzz")
    expect(page.get_by_text("Nothing found so far. Enter searches further.")).to_be_visible()


def test_the_server_says_how_far_it_searched(shop: Shop) -> None:
    for path in ("/v1/jobs", "/v1/runs"):
        first = shop.ask("GET", f"{path}?page_size=2")
        assert first["next_cursor"] and first["searched_to"].endswith("Z")
        last = shop.ask("GET", f"{path}?task=no.such.task")
        assert (last["items"], last["next_cursor"], last["searched_to"]) == ([], None, None)
