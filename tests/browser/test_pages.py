"""Every page: it shows what is there, axe finds nothing serious, and it says nothing on the console; in light and dark,
wide and on a phone."""

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Looking, Shop, log_in

AXE = (Path(__file__).parent / "vendor" / "axe.js").read_text()
PAGES = {
    "/": ("Now", "Runs a second"),
    "/jobs": ("Jobs", "Weekday report"),
    "/jobs/new": ("New job", "Once, right away"),
    "/runs": ("Runs", "shop.ping"),
    "/graphs": ("Graphs", "Order 17"),
    "/calendar": ("Calendar", "Hour"),
    "/dead-letters": ("Dead letters", "has no card"),
    "/queues": ("Queues", "mail"),
    "/workers": ("Workers", "slots in use"),
    "/breakers": ("Breakers", "A target that keeps failing"),
    "/access": ("Tenants and keys", "Keys of this tenant"),
    "/audit": ("Audit", "jobs.create"),
}
PHONE = {"width": 390, "height": 844}


def serious(page: Page, *rules: str) -> list[str]:
    """What axe finds that would keep people out: by all rules, or these."""
    only = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": ["wcag2a", "wcag2aa"]}
    asked = json.dumps({"resultTypes": ["violations"], "runOnly": only})
    found: list[dict[str, Any]] = page.evaluate(
        f"(() => {{ {AXE} }})(); axe.run(document, {asked}).then((found) => found.violations)"
    )
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"]
    ]


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
    expect(page).to_have_title(f"{title} – duetime")
    assert serious(page) == []
    looking.shoot(name_of(path))


def test_a_job_and_a_run_have_pages(looking: Looking) -> None:
    for name, path in job_and_run(looking.shop).items():
        page = looking.go(path)
        expect(page.locator("main .card").first).to_be_visible()
        assert serious(page) == [], name
        looking.shoot(name)


@pytest.mark.parametrize(("look", "scheme", "size"), [("dark", "dark", None), ("phone", "light", PHONE)])
def test_dark_and_on_a_phone(browser: Browser, shop: Shop, look: str, scheme: Any, size: Any) -> None:
    context = browser.new_context(color_scheme=scheme, viewport=size or {"width": 1280, "height": 800})
    log_in(context, shop, shop.key)
    looking = Looking(context.new_page(), shop)
    more = job_and_run(shop)
    for path in (*PAGES, more["graph"], more["job"], more["run"]):
        page = looking.go(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{path} is wider than the screen"
        assert serious(page, "color-contrast") == [], (look, path)
        looking.shoot(f"{look}-{name_of(path).split('_')[0]}", whole=False)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(16, 18, 22)") == (look == "dark")
    assert looking.complaints == []
    context.close()


def test_a_page_that_is_not_there(looking: Looking) -> None:
    page = looking.go("/runs/run_00000000000000000000000000")
    expect(page.get_by_role("alert")).to_contain_text("there is no")
    looking.complaints = [each for each in looking.complaints if "404" not in each]
