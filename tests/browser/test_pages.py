"""Every page: it shows what is there, axe finds nothing, and it says nothing on the console; in light and dark, wide
and on a phone."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, TimeoutError, ViewportSize, expect

from tests.browser.conftest import TIMEOUT, WIDE, Looking, Shop

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
PAGES = {
    "/": ("Now", "Runs per second"),
    "/trends": ("Trends", "How late runs started"),
    "/jobs": ("Jobs", "Weekday report"),
    "/schedules": ("Schedules", "Weekday report"),
    "/jobs/new": ("New job", "Runs once, now."),
    "/runs": ("Runs", "shop.ping"),
    "/graphs": ("Graphs", "Order 17"),
    "/calendar": ("Calendar", "Hour"),
    "/dead-letters": ("Dead letters", "has no card"),
    "/bulk-actions": ("Bulk actions", "Pause jobs"),
    "/queues": ("Queues", "mail"),
    "/workers": ("Workers", "slots in use"),
    "/breakers": ("Breakers", "A target that keeps failing"),
    "/streams": ("Streams", "No queue has a stream."),
    "/alerts": ("Alerts", "silent-report"),
    "/checkins": ("Check-ins", "backup"),
    "/notifications": ("Notifications", "on-call"),
    "/calendars": ("Calendars", "holidays"),
    "/defaults": ("Defaults", "This tenant has no defaults."),
    "/secrets": ("Secrets", "api-token"),
    "/sources": ("Sources", "orders"),
    "/issuers": ("Issuers", "our-app"),
    "/keys": ("Keys", "A key belongs to this tenant"),
    "/sessions": ("Sessions", "This session"),
    "/tenants": ("Tenants", "Each has its own jobs"),
    "/tenants/default": ("default", "Usage this month"),
    "/archive": ("Archive", "This server archives nothing."),
    "/audit": ("Audit", "jobs.create"),
}
TITLES = {"/tenants/default": "Tenant"}
PHONE: ViewportSize = {"width": 390, "height": 844}
LOOKS: tuple[tuple[str, Literal["light", "dark"], ViewportSize], ...] = (
    ("dark", "dark", WIDE),
    ("phone", "light", PHONE),
)


def violations(page: Page, *rules: str) -> list[str]:
    """What axe finds, whatever its impact: by all its rules, or by some, named by themselves or by a tag."""
    asked = {"resultTypes": ["violations"]} | ({"runOnly": list(rules)} if rules else {})
    if not page.evaluate("'axe' in window"):  # its script takes longer than its rules
        page.evaluate(f"(() => {{ {AXE} }})()")
    found: list[dict[str, Any]] = page.evaluate(
        f"axe.run(document, {json.dumps(asked)}).then((found) => found.violations)"
    )
    return [f"{each['id']}: {node['target']} {node['failureSummary']}" for each in found for node in each["nodes"]]


def name_of(path: str) -> str:
    return path.strip("/").replace("/", "-") or "now"


def job_and_run(shop: Shop) -> dict[str, str]:
    job = shop.ask("GET", "/v1/jobs?name=Heartbeat")["items"][0]
    failed = shop.ask("GET", "/v1/dead-letters")["items"][0]
    graph = shop.ask("GET", "/v1/graphs")["items"][0]
    return {
        "graph": f"/graphs/{graph['graph_id']}",
        "job": f"/jobs/{job['job_id']}",
        "edit": f"/jobs/{job['job_id']}/edit",
        "run": f"/runs/{failed['run_id']}",
    }


@pytest.mark.parametrize("path", PAGES)
def test_a_page_shows_what_is_there(looking: Looking, path: str) -> None:
    page = looking.go(path)
    title, words = PAGES[path]
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    expect(page.get_by_text(words).first).to_be_visible()
    expect(page).to_have_title(f"{TITLES.get(path, title)} – duetime")
    assert violations(page) == []
    looking.shoot(name_of(path))
    check_other_looks(looking, name_of(path))


def test_a_job_and_a_run_have_pages(looking: Looking) -> None:
    for name, path in job_and_run(looking.shop).items():
        page = looking.go(path)
        expect(page.locator("main .card").first).to_be_visible()
        assert violations(page) == [], name
        looking.shoot(name)
        check_other_looks(looking, name)


def check_other_looks(looking: Looking, name: str) -> None:
    """In the dark by all rules, and as wide as a phone, where other texts may be on other grounds."""
    page = looking.page
    expect(page.locator("[aria-busy]")).to_have_count(0)
    for look, scheme, size in LOOKS:
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size(size)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(16, 18, 22)") == (look == "dark")
        try:  # what is drawn for a width is drawn again
            page.wait_for_function("document.documentElement.scrollWidth <= innerWidth", timeout=TIMEOUT)
        except TimeoutError:
            pytest.fail(f"{name} is wider than the {look}")
        assert violations(page, *([] if look == "dark" else ["color-contrast"])) == [], (look, name)
        looking.shoot(f"{look}-{name}", whole=False)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(WIDE)


def test_a_page_that_is_not_there(looking: Looking) -> None:
    page = looking.go("/runs/run_00000000000000000000000000")
    expect(page.get_by_role("alert")).to_contain_text("there is no")
    looking.complaints = [each for each in looking.complaints if "404" not in each]
