"""Why things wait, lost workers, the road of a run and its logs, in a real browser."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Looking
from tests.browser.test_pages import check_other_looks, violations
from tests.support.command import Command


def test_a_run_says_why_it_waits(looking: Looking) -> None:
    made = looking.shop.submit("nobody_has_that")
    page = looking.go(f"/runs/{made['run_id']}")
    reasons = page.get_by_role("region", name="Why it waits")
    expect(reasons).to_contain_text("No live worker has shop.nobody_has_that")
    expect(reasons).to_contain_text("Start a worker with the app that has this task")
    assert violations(page) == []
    looking.shoot("run-waiting")
    check_other_looks(looking, "run-waiting")
    page = looking.go(f"/jobs/{made['job_id']}")
    expect(page.get_by_role("region", name="Why it waits")).to_contain_text("No live worker has shop.nobody_has_that")


def test_a_run_names_the_run_that_it_waits_for(looking: Looking) -> None:
    of_key = {"queue": "keys", "concurrency_key": "only one", "args": {"steps": 3000, "pause": 0.05}}
    first = looking.shop.submit("rebuild", **of_key)
    looking.go(f"/runs/{first['run_id']}")
    expect(looking.page.locator("main .head .badge")).to_have_text("Running")
    second = looking.shop.submit("rebuild", **of_key)
    page = looking.go(f"/runs/{second['run_id']}")
    reasons = page.get_by_role("region", name="Why it waits")
    expect(reasons).to_contain_text("Its concurrency key 'only one' is in use: 1 of 1 runs hold it.")
    link = reasons.get_by_role("link")
    expect(link).to_have_text(f"run {first['run_id']}")
    link.click()
    expect(page).to_have_url(f"{looking.shop.url}/runs/{first['run_id']}")
    for made in (first, second):
        looking.shop.ask("POST", f"/v1/runs/{made['run_id']}/cancel", {})


def test_a_paused_queue_and_a_paused_job_say_so(looking: Looking) -> None:
    looking.shop.ask("POST", "/v1/queues/held/pause", {})
    made = looking.shop.submit("ping", queue="held")
    page = looking.go(f"/runs/{made['run_id']}")
    reasons = page.get_by_role("region", name="Why it waits")
    expect(reasons).to_contain_text("The queue held has been paused for")
    looking.shop.ask("POST", "/v1/queues/held/resume", {})
    expect(page.locator("main .head .badge")).to_have_text("Succeeded")
    expect(reasons).to_have_count(0)
    job = looking.shop.submit("ping", every="1h", name="Hourly")
    page = looking.go(f"/jobs/{job['job_id']}")
    expect(page.get_by_role("region", name="Why it waits")).to_contain_text("Its next run is due in")
    looking.shop.ask("POST", f"/v1/jobs/{job['job_id']}/pause", {})
    expect(page.get_by_role("region", name="Why it waits")).to_contain_text("The job is paused.")


APP = """
import time
import duetime

app = duetime.App()


@app.task(name="fleet.freeze")
def freeze() -> None:
    time.sleep(3600)
"""


@pytest.fixture
def fleet(looking: Looking, tmp_path: Path) -> Iterator[Command]:
    """A remote worker with a task of its own."""
    (tmp_path / "fleet.py").write_text(APP)
    environ = {"DUETIME_URL": looking.shop.url, "DUETIME_KEY": looking.shop.make_key("worker")}
    with Command(tmp_path, "worker", "fleet:app", "--json", environ=environ) as worker:
        yield worker


def test_a_lost_worker_stays_visible_with_its_runs(looking: Looking, fleet: Command) -> None:
    made = looking.shop.ask("POST", "/v1/jobs", {"task": "fleet.freeze"})
    deadline = time.monotonic() + 60
    while looking.shop.ask("GET", f"/v1/runs/{made['run_id']}")["status"] != "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.2)
    os.killpg(fleet.pid, signal.SIGKILL)
    page = looking.go("/workers")
    past = page.get_by_role("region", name="Left or lost within a day")
    row = past.locator("tbody tr").filter(has_text=f":{fleet.pid}")
    expect(row).to_contain_text("Lost", timeout=60_000)
    expect(row).to_contain_text("no heartbeat")
    expect(row).to_contain_text("fleet.freeze")
    assert violations(page) == []
    looking.shoot("workers-past")
    check_other_looks(looking, "workers-past")
    row.get_by_role("link", name="fleet.freeze").click()
    expect(page.get_by_role("list", name="What happened")).to_contain_text("attempt 0 lost its worker")
    expect(page.get_by_role("region", name="Why it waits")).to_contain_text(f":{fleet.pid}, was lost")
    looking.shop.ask("POST", f"/v1/runs/{made['run_id']}/cancel", {})


def test_every_attempt_is_on_one_timeline_and_logs_can_be_used(looking: Looking) -> None:
    args = {"to": "x@example.com", "fail": True}
    made = looking.shop.submit("send_report", args=args, retries=1)
    page = looking.go(f"/runs/{made['run_id']}")
    expect(page.locator("main .head .badge")).to_have_text("Failed")
    happened = page.get_by_role("list", name="What happened")
    expect(happened.locator("li")).to_have_count(6)
    for words in ("due", "attempt 1 started on", "attempt 1 failed after", "attempt 2 started on", "run failed"):
        expect(happened).to_contain_text(words)
    log = page.get_by_role("list", name="Log of attempt 2")
    expect(log.locator("li")).to_have_count(2)
    page.get_by_role("searchbox", name="Search in Log of attempt 2").fill("SERVER")
    expect(log.locator("li")).to_have_count(1)
    expect(page.get_by_text("1 of 2 lines")).to_be_visible()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    tools = page.locator(".log", has=log)
    tools.get_by_role("button", name="Copy").click()
    expect(page.get_by_text("Copied 1 line")).to_be_visible()
    assert "the mail server said no" in page.evaluate("navigator.clipboard.readText()")
    high = log.evaluate("each => getComputedStyle(each).maxHeight")
    tools.get_by_role("button", name="Expand").click()
    assert (high, log.evaluate("each => getComputedStyle(each).maxHeight")) == ("340px", "none")
    assert violations(page) == []
    # The picture is for the docs: without the paths of this machine.
    first_lines = "all => all.forEach((each) => { each.style.maxHeight = '42px'; each.style.overflow = 'hidden'; })"
    page.locator("pre.text[aria-label=Error]").evaluate_all(first_lines)
    looking.shoot("run-attempts")
    check_other_looks(looking, "run-attempts")


def test_a_log_is_followed_until_one_scrolls(looking: Looking) -> None:
    made = looking.shop.submit("rebuild", args={"steps": 3000, "pause": 0.02})
    page = looking.go(f"/runs/{made['run_id']}")
    log = page.get_by_role("list", name="Log of the current attempt")
    at_end = "each => each.scrollTop > 0 && each.scrollHeight - each.scrollTop - each.clientHeight < 40"
    expect(log.locator("li").nth(60)).to_be_attached()
    page.wait_for_function(at_end, arg=log.element_handle())
    page.get_by_role("button", name="Follow").click()
    log.evaluate("each => { each.scrollTop = 0; }")
    last = log.locator("li").last  # a page keeps only so many lines
    for _ in range(2):
        expect(last).not_to_have_text(last.inner_text())
    assert log.evaluate("each => each.scrollTop") == 0
    looking.shop.ask("POST", f"/v1/runs/{made['run_id']}/cancel", {})


def test_a_critical_path_has_only_what_ran(looking: Looking) -> None:
    nodes = {
        "fails": {"task": "shop.charge", "args": {"order": 1}, "retries": 0},
        "never": {"task": "shop.rebuild", "depends_on": ["fails"]},
        "last": {"task": "shop.ping", "depends_on": ["never"]},
    }
    looking.shop.ask("POST", "/v1/graphs", {"name": "Half of it", "nodes": nodes})
    page = looking.go("/graphs")
    page.get_by_role("link", name="Half of it").click()
    drawing = page.get_by_role("group", name="The graph")
    expect(page.locator("main .head .badge")).to_have_text("Failed")
    expect(drawing.locator("g.node.critical")).to_have_count(1)
    assert drawing.get_attribute("aria-label") == "The graph; its critical path is fails"
    expect(page.get_by_text("It contains only nodes that ran.")).to_be_visible()


def test_a_queue_shows_its_pace_and_its_limits_can_be_changed(looking: Looking) -> None:
    looking.shop.ask("POST", "/v1/queues/paced/pause", {})
    for _ in range(4):
        looking.shop.submit("ping", queue="paced")
    page = looking.go("/queues")
    row = page.locator("tbody tr").filter(has=page.get_by_role("link", name="paced", exact=True))
    expect(row).to_contain_text("4 4 medium")
    expect(row).to_contain_text("ago")
    row.get_by_role("button", name="Limits of paced").click()
    form = page.get_by_role("dialog", name="Limits of paced")
    form.get_by_label("Running at once").fill("2")
    expect(form).to_contain_text("0 runs run now: 2 more can start.")
    form.get_by_label("Starts").fill("30/m")
    expect(form).to_contain_text("At most 0.50 start per second")
    form.get_by_label("Starts").fill("many")
    expect(form).to_contain_text("A rate is written as 100/m")
    expect(form.get_by_role("button", name="Save")).to_be_disabled()
    form.get_by_label("Starts").fill("30/m")
    assert violations(page) == []
    looking.shoot("queue-limits", whole=False)
    form.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("at most 2 running, starts at most 30/m")
    assert looking.shop.ask("GET", "/v1/queues/paced")["running_limit"] == 2
    page.get_by_role("button", name="Undo").click()
    expect(row).to_contain_text("none")
    row.get_by_role("button", name="Resume paced").click()
    expect(row).to_contain_text("/s")
    expect(row.locator(".badge")).to_have_text("Active")


def test_trends_of_an_hour_a_day_and_a_week(looking: Looking) -> None:
    page = looking.go("/trends")
    # The first minute is counted some seconds after its end, and the page reads every 30 seconds.
    expect(page.get_by_role("img", name="Lag: from due to started")).to_be_visible(timeout=150_000)
    expect(page.get_by_role("img", name="Duration of attempts")).to_be_visible()
    assert violations(page) == []
    looking.shoot("trends")
    check_other_looks(looking, "trends")
    for name in ("Day", "Week"):
        page.get_by_role("button", name=name).click()
        expect(page).to_have_url(f"{looking.shop.url}/trends?range={name.lower()}")
        expect(page.get_by_role("img", name="Runs that ended per second")).to_be_visible()
