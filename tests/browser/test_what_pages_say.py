"""What pages say is what the API says: the next fires, the nodes of large graphs, units, slots in use."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Looking, Shop
from tests.browser.test_pages import violations


def day(number: int) -> str:
    return f"{datetime.now(UTC) + timedelta(days=number):%Y-%m-%d}"


def fires(page: Page) -> list[str]:
    expect(page.locator("section[aria-labelledby=next] .fires li").first).to_be_visible()
    return page.locator("section[aria-labelledby=next] .fires li span:first-child").all_inner_texts()


def test_the_next_runs_are_those_that_will_be(looking: Looking) -> None:
    bounds = {"exclude": {"dates": [day(2), day(3)]}, "end_at": f"{day(5)}T00:00:00Z"}
    made = looking.shop.submit("ping", name="Bounded", cron="0 23 * * *", **bounds)
    page = looking.go(f"/jobs/{made['job_id']}")
    days = [datetime.fromisoformat(day(number)) for number in (0, 1, 4)]
    shown = fires(page)
    assert [text.split(",")[0].split()[1] for text in shown][-2:] == [str(each.day) for each in days][-2:]
    assert len(shown) <= 3
    expect(page.get_by_text("These are its last runs.")).to_be_visible()

    for wish in ({"cron": "0 23 * * *"}, {"every": "3h"}):
        made = looking.shop.submit("ping", name="Three at the most", max_runs=3, **wish)
        looking.go(f"/jobs/{made['job_id']}")
        assert len(fires(page)) == 3
        expect(page.get_by_text("These are its last runs.")).to_be_visible()
    made = looking.shop.submit("ping", name="Without an end", cron="0 23 * * *")
    looking.go(f"/jobs/{made['job_id']}")
    assert len(fires(page)) == 5
    expect(page.get_by_text("These are its last runs.")).to_have_count(0)


def test_a_node_that_failed_is_seen_in_a_large_graph(looking: Looking) -> None:
    nodes: dict[str, Any] = {f"node-{number:03}": {"task": "shop.ping"} for number in range(420)}
    nodes["node-399"] = {"task": "shop.charge", "args": {"order": 1}, "retries": 0}
    made = looking.shop.ask("POST", "/v1/graphs", {"name": "Large", "nodes": nodes})
    page = looking.go(f"/graphs/{made['graph_id']}")
    expect(page.locator("main .head p")).to_contain_text("1 failed")
    expect(page.locator("tbody tr").first).to_contain_text("node-399")
    expect(page.get_by_text("Page 1 of 5, 420 nodes")).to_be_visible()
    page.get_by_role("button", name="Next →").click()
    page.wait_for_url("**page=2*")
    expect(page.get_by_text("Page 2 of 5, 420 nodes")).to_be_visible()
    page.get_by_label("Status of the nodes").select_option("FAILED")
    page.wait_for_url("**status=FAILED*")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("tbody tr")).to_contain_text("node-399")
    assert violations(page) == []


def test_runs_are_found_by_their_owner(looking: Looking) -> None:
    made = looking.shop.submit("ping", owner="runner-7")
    page = looking.go("/runs?owner=runner-7")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_label("Owner")).to_have_value("runner-7")
    expect(page.locator("tbody a").first).to_have_attribute("href", f"/runs/{made['run_id']}")
    page.get_by_label("Owner").fill("nobody")
    page.get_by_role("button", name="Find").click()
    page.wait_for_url("**owner=nobody*")
    expect(page.get_by_text("No runs match.")).to_be_visible()


def test_a_value_of_an_alert_has_the_unit_of_its_figure(looking: Looking) -> None:
    units = {"duration": "times their usual duration", "unserved": "lanes without a worker"}
    for figure, unit in units.items():
        looking.shop.ask("PUT", f"/v1/alerts/of-{figure}", {"figure": figure, "threshold": 3})
        page = looking.go("/alerts")
        row = page.locator("tbody tr").filter(has_text=f"of-{figure}")
        expect(row).to_contain_text(unit)
        looking.shop.ask("DELETE", f"/v1/alerts/of-{figure}")


def test_slots_in_use_are_those_that_the_server_counts(looking: Looking, shop: Shop) -> None:
    """Whatever the first page of running runs contains."""
    workers = shop.ask("GET", "/v1/workers")
    assert all(0 <= worker["running"] <= worker["slots"] for worker in workers["items"])
    workers["items"] = [workers["items"][0] | {"slots": 500, "running": 480}]
    body = json.dumps(workers)

    def answer(route: Route) -> None:
        route.fulfill(status=200, content_type="application/json", body=body)

    looking.page.route("**/v1/workers", answer)
    page = looking.go("/workers")
    expect(page.get_by_text("480 of 500 slots in use")).to_be_visible()
    expect(page.get_by_role("meter")).to_have_attribute("aria-valuenow", "96")
    page.get_by_role("link", name="All running runs").click()
    page.wait_for_url("**/runs?status=RUNNING")
