"""The road of a job, walked with the mouse and by keyboard alone: create, preview, run, fail, inspect, replay."""

import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import ELSEWHERE, Looking, Shop, log_in

TASK = "shop.send_report"


def test_from_a_new_job_to_its_replay(looking: Looking) -> None:
    page = looking.go("/jobs")
    page.get_by_role("link", name="New job").click()
    page.get_by_label("Task", exact=True).fill(TASK)
    page.get_by_label("Name", exact=True).fill("Report for the board")
    page.get_by_label("When", exact=True).fill("every weekday at 9")
    preview = page.get_by_label("Schedule preview")
    expect(preview).to_contain_text("At 09:00, Monday to Friday")
    expect(preview.get_by_role("listitem")).to_have_count(6)
    page.get_by_label("When", exact=True).fill("0 25 * * *")
    expect(preview).to_contain_text("25")
    expect(preview.locator(".wrong")).to_be_visible()
    page.get_by_label("When", exact=True).fill("2027-03-28 02:30")
    page.get_by_label("When", exact=True).fill("30 2 28 3 *")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    expect(preview).to_contain_text("does not exist")
    looking.complaints.clear()  # the browser tells of answers 422 itself
    arguments = page.get_by_role("group", name="Arguments")
    arguments.get_by_label("to").fill("board@example.com")
    arguments.get_by_label("secret").fill("hunter2")
    arguments.get_by_label("fail").select_option("true")
    page.get_by_text("More options").click()
    page.get_by_label("Retries").fill("0")
    page.get_by_role("button", name="Create").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Report for the board")
    page.get_by_role("button", name="Run now").click()
    page.locator("main table").get_by_role("link").first.click()
    expect(page.locator("main .head .badge")).to_have_text("Failed")
    expect(page.get_by_label("Error", exact=True)).to_contain_text("mail to board@example.com was refused")
    expect(page.get_by_role("list", name="Log of attempt 1")).to_contain_text("the mail server said no")
    arguments = page.get_by_role("region", name="Arguments")
    expect(arguments).not_to_contain_text("hunter2")
    page.get_by_role("button", name="Show values").click()
    expect(arguments).to_contain_text("hunter2")

    page.get_by_role("link", name="Replay with changes").click()
    page.get_by_role("button", name="As JSON").click()
    page.get_by_label("Arguments").fill('{"to": "board@example.com"}')
    page.get_by_role("button", name="Replay").click()
    expect(page.locator("main .head .badge")).to_have_text("Succeeded")
    expect(page.get_by_role("region", name="Result")).to_contain_text("board@example.com")


def test_bounds_without_a_time_are_refused(looking: Looking) -> None:
    """They mean nothing then: the job would run at once, on the days that it must leave out."""
    page = looking.go("/jobs/new")
    page.get_by_label("Task", exact=True).fill(TASK)
    page.get_by_role("group", name="Arguments").get_by_label("to").fill("board@example.com")
    page.get_by_text("More options").click()
    for label, given, field in (
        ("Start at", "2040-01-31T00:00:00Z", "start_at"),
        ("End at", "2040-12-31T00:00:00Z", "end_at"),
        ("Exclude", "SAT, SUN", "exclude"),
    ):
        page.get_by_label(label).fill(given)
        expect(page.get_by_label("Schedule preview")).to_contain_text("is not a schedule")
        page.get_by_role("button", name="Create").click()
        expect(page.get_by_role("alert")).to_contain_text(f"{field}: requires a recurring schedule")
        expect(page.get_by_label(label)).to_have_attribute("aria-invalid", "true")
        page.get_by_label(label).fill("")
    expect(page.get_by_label("Schedule preview")).to_contain_text("Runs once, now.")
    looking.complaints.clear()  # the browser tells of answers 422 itself


def test_a_replay_with_changes_keeps_how_the_job_runs(looking: Looking) -> None:
    limits = {"concurrency_key": "c", "concurrency": 2, "rate_key": "r", "rate": "100/m", "warn_after": 30.0}
    retry = {"retries": 2, "base": 70.0, "factor": 3.0, "cap": 100.0, "give_up_on": ["ValueError"], "lost_retries": 1}
    url = "https://hooks.example.invalid/"
    wishes = [
        {"target": {"type": "http", "url": f"{url}one", "headers": {"x-shop": "1"}}, "retry": retry, **limits},
        {"task": "shop.ping", "delivery": "at_most_once", "owner": "u1", "payload_ref": "s3://bucket/1"},
    ]
    for wish in wishes:
        made = looking.shop.ask("POST", "/v1/jobs", wish)
        page = looking.go(f"/runs/{made['run_id']}")
        page.get_by_role("link", name="Replay with changes").click()
        if "target" in wish:
            page.get_by_label("Target").fill(page.get_by_label("Target").input_value().replace("one", "two"))
        page.get_by_role("button", name="Replay").click()
        page.wait_for_url("**/runs/*")
        run = looking.shop.ask("GET", "/v1/runs/" + page.url.rpartition("/")[2])
        before, after = (looking.shop.ask("GET", f"/v1/jobs/{each['job_id']}") for each in (made, run))
        for name in (*limits, "retry", "delivery", "owner", "payload_ref", "queue", "priority", "timeout"):
            assert after[name] == before[name], name
        assert after["target"] == (wish["target"] | {"url": f"{url}two"} if "target" in wish else None)


def test_large_numbers_stay_what_they_are(looking: Looking) -> None:
    large = {"order": 9007199254740993, "more": {"ids": [-9223372036854775807, 1], "ratio": 0.1}}
    made = looking.shop.submit("nobody_has_large", args=large)
    page = looking.go(f"/runs/{made['run_id']}")
    args = page.get_by_role("region", name="Arguments")
    expect(args).to_contain_text('"order": "••••••"')
    args.get_by_role("button", name="Show values").click()
    for text in ('"order": 9007199254740993', "-9223372036854775807"):
        expect(args).to_contain_text(text)
    looking.shop.ask("POST", f"/v1/runs/{made['run_id']}/cancel", {})
    page.reload()
    page.get_by_role("link", name="Replay with changes").click()
    field = page.get_by_label("Arguments, as JSON")
    field.fill(field.input_value().replace("0.1", "1e400"))
    field.fill(field.input_value().replace("1e400", "0.25"))
    page.get_by_role("button", name="Replay", exact=True).click()
    page.wait_for_url("**/runs/*")
    run = looking.shop.ask("GET", "/v1/runs/" + page.url.rpartition("/")[2])
    assert run["args"] == large | {"more": large["more"] | {"ratio": 0.25}}  # type: ignore[operator]
    looking.shop.ask("POST", f"/v1/runs/{run['run_id']}/cancel", {})
    job_id = looking.shop.submit("nobody_has_large", args=large, every="12h")["job_id"]
    page.goto(f"{looking.shop.url}/jobs/{job_id}/edit")
    field = page.get_by_label("Arguments, as JSON")
    field.fill(field.input_value().replace("0.1", "0.5"))
    page.get_by_role("button", name="Save").click()
    page.wait_for_url(f"**/jobs/{job_id}")
    stored = looking.shop.ask("GET", f"/v1/jobs/{job_id}")["args"]
    assert stored == large | {"more": large["more"] | {"ratio": 0.5}}  # type: ignore[operator]


def test_large_numbers_of_a_result_are_shown(looking: Looking) -> None:
    made = looking.shop.submit("count_to", args={"number": 2**60 + 1})
    page = looking.go(f"/runs/{made['run_id']}")
    expect(page.get_by_role("region", name="Result")).to_contain_text(str(2**60 + 1))


def test_news_come_without_a_reload(looking: Looking) -> None:
    page = looking.go("/jobs?tag=fresh")
    expect(page.get_by_text("No jobs match.")).to_be_visible()
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    page.evaluate("window.unchanged = true")
    looking.shop.submit("ping", name="Fresh from the API", tags=["fresh"], every="1h")
    expect(page.get_by_role("link", name="Fresh from the API")).to_be_visible()
    assert page.evaluate("window.unchanged"), "the page was not loaded anew"


def test_a_run_is_followed_while_it_runs(looking: Looking) -> None:
    made = looking.shop.submit("rebuild", args={"steps": 3000, "pause": 0.05})
    page = looking.go(f"/runs/{made['run_id']}")
    expect(page.get_by_role("heading", name=re.compile("shelf [0-9]+ of 3000"))).to_be_visible()
    expect(page.get_by_role("meter", name="Progress")).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Keep it").click()
    assert looking.shop.ask("GET", f"/v1/runs/{made['run_id']}")["status"] == "RUNNING"
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel the run").click()
    expect(page.locator("main .head .badge")).to_have_text("Cancelled")
    expect(page.get_by_role("list", name="Log of attempt 1")).to_contain_text("shelf 0")


def test_pausing_is_undone(looking: Looking) -> None:
    made = looking.shop.submit("ping", name="Pausing", every="1h")
    looking.page.add_init_script(
        "const set = setTimeout; window.waits = []; window.setTimeout = (f, ms) => (waits.push(ms), set(f, ms));"
    )
    page = looking.go("/jobs?name=Pausing")
    row = page.locator("main tbody tr")
    row.get_by_role("button", name="Pause").click()
    expect(row.locator(".badge")).to_have_text("Paused")
    assert 10_000 in page.evaluate("waits"), "Undo is offered for ten seconds"
    page.get_by_role("button", name="Undo").click()
    expect(row.locator(".badge")).to_have_text("Active")
    assert looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}/status")["status"] == "ACTIVE"


def test_many_at_once(looking: Looking) -> None:
    for number in range(5):
        looking.shop.submit("ping", name=f"Bulk {number}", every="1h", tags=["bulk"])
    page = looking.go("/jobs?tag=bulk")
    page.get_by_label("Select all on this page").check()
    selected = page.get_by_role("region", name="Selected jobs")
    selected.get_by_role("button", name="Run now").click()
    page.get_by_role("button", name="Keep them").click()
    selected.get_by_role("button", name="Run now").click()
    page.get_by_role("dialog").get_by_role("button", name="Run them").click()
    expect(page.get_by_text("Started 5 jobs")).to_be_visible()
    page.get_by_label("Select all on this page").check()
    selected.get_by_role("button", name="Pause").click()
    expect(page.locator("tbody .badge.warn")).to_have_count(5)
    expect(page.get_by_text("Paused 5 jobs")).to_be_visible()
    page.get_by_label("Select all on this page").check()
    selected.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Cancel them").click()
    expect(page.locator("tbody .badge", has_text="Cancelled")).to_have_count(5)


def test_an_edit_and_its_undo(looking: Looking) -> None:
    made = looking.shop.submit("ping", name="Edited", every="1h")
    page = looking.go(f"/jobs/{made['job_id']}/edit")
    page.get_by_label("When", exact=True).fill("every 2 hours")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main .head p")).to_contain_text("Every 2 hours")
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("main .head p")).to_contain_text("Every hour")


def test_an_edit_keeps_the_bounds_and_its_undo_is_whole(looking: Looking) -> None:
    exclude = {"weekdays": ["SUN"], "dates": ["2040-12-24"]}
    made = looking.shop.submit("ping", every="1h", end_at="2041-01-01T00:00:00Z", exclude=exclude)

    def known() -> dict[str, Any]:
        job = looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}")
        job["schedule"] = {name: job["schedule"][name] for name in ("end_at", "exclude")}
        return {name: job[name] for name in ("name", "timeout", "schedule", "overlap", "retry")}

    before = known()
    page = looking.go(f"/jobs/{made['job_id']}/edit")
    expect(page.get_by_label("Exclude")).to_have_value("SUN, 2040-12-24")
    page.get_by_label("When", exact=True).fill("every 2 hours")
    page.get_by_label("Name", exact=True).fill("Given a name")
    page.get_by_label("Timeout").fill("30s")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main .head p")).to_contain_text("Every 2 hours")
    assert known() == before | {"name": "Given a name", "timeout": 30.0}
    page.get_by_role("button", name="Undo").click()
    expect(page.locator("main .head p")).to_contain_text("Every hour")
    assert known() == before

    page.goto(f"{looking.shop.url}/jobs/{made['job_id']}/edit")
    page.get_by_label("End at").fill("")
    page.get_by_label("Exclude").fill("sat")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed shop.ping")).to_be_visible()
    schedule = known()["schedule"]
    assert (schedule["end_at"], schedule["exclude"]["weekdays"], schedule["exclude"]["dates"]) == (None, ["SAT"], [])


def test_dead_letters_are_replayed_and_discarded_together(looking: Looking) -> None:
    for _ in range(3):
        looking.shop.submit("shout", args={"text": "boom: discard me"}, retries=0)
        looking.shop.submit("shout", args={"text": "boom: replay me"}, retries=0)
    page = looking.go("/dead-letters")
    replayed = page.get_by_role("article").filter(has_text="boom: replay me")
    expect(replayed.get_by_role("button", name="Replay 3")).to_be_visible()
    replayed.get_by_role("button", name="Replay 3").click()
    page.get_by_role("button", name="Replay 3 dead letters").click()
    expect(page.get_by_text("Replay dead letters: 3 done")).to_be_visible()
    expect(replayed.get_by_role("button", name="Replay 3")).to_be_visible()  # they failed again
    discarded = page.get_by_role("article").filter(has_text="boom: discard me")
    discarded.get_by_role("button", name="Discard 3").click()
    page.get_by_role("button", name="Discard 3 dead letters").click()
    expect(page.get_by_text("Discard dead letters: 3 done")).to_be_visible()
    expect(discarded).to_have_count(0)


def test_the_server_replays_a_group_as_it_is_now(looking: Looking) -> None:
    jobs = [{"task": "shop.shout", "args": {"text": "boom: many"}, "retries": 0}] * 130
    looking.shop.ask("POST", "/v1/jobs/batch", jobs)
    page = looking.go("/dead-letters")
    group = page.get_by_role("article").filter(has_text="boom: many")
    group.get_by_role("button", name="Replay 130").click()
    expect(page.get_by_role("button", name="Replay 130 dead letters")).to_be_visible()
    before = datetime.now(UTC)
    with page.expect_request(lambda request: request.url.endswith("/v1/bulk-actions")) as asked:
        page.get_by_role("button", name="Replay 130 dead letters").click()
    body = asked.value.post_data_json
    assert body["action"] == "retry"
    assert datetime.fromisoformat(body["dead_letters"]["end_time"]) < before, "what dies again stays"
    page.goto(f"{looking.shop.url}/bulk-actions")  # it goes on without the page
    row = page.get_by_role("row").filter(has_text=body["dead_letters"]["fingerprint"])
    expect(row).to_contain_text("130 done")
    assert looking.shop.ask("GET", "/v1/bulk-actions")["items"][0]["done"] == 130


def test_what_is_said_of_a_server_that_is_away(looking: Looking) -> None:
    made = looking.shop.submit("ping", name="Unreached", every="1h")
    page = looking.go(f"/jobs/{made['job_id']}")
    expect(page.get_by_role("button", name="Pause")).to_be_visible()
    away = re.compile("/v1/jobs/job_")
    page.route(away, lambda route: route.abort())
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Try again: if it was done already, it is not done twice.")).to_be_visible()
    expect(page.get_by_text("The page retries automatically.")).to_have_count(0)
    page.goto(f"{looking.shop.url}/jobs/{made['job_id']}")
    expect(page.get_by_text("The page retries automatically.").first).to_be_visible()
    page.unroute(away)
    expect(page.get_by_role("heading", level=1)).to_have_text("Unreached")
    looking.complaints.clear()  # the browser tells of failed requests itself


def test_a_refused_download_is_not_saved(looking: Looking) -> None:
    page = looking.go("/tenants/default")
    refusal = {"title": "Too many requests", "detail": "The limit of requests is used up", "status": 429}
    page.route(
        "**/v1/usage?format=csv",
        lambda route: route.fulfill(status=429, content_type="application/problem+json", body=json.dumps(refusal)),
    )
    saved: list[Any] = []
    page.on("download", lambda download: saved.append(download))
    page.get_by_role("button", name="Download as CSV").click()
    expect(page.get_by_text("The limit of requests is used up")).to_be_visible()
    assert saved == []
    looking.complaints.clear()  # the browser tells of answers 429 itself


def test_a_graph_is_drawn_and_followed(looking: Looking) -> None:
    nodes = {
        "slow": {"task": "shop.rebuild", "args": {"steps": 3, "pause": 0.2}},
        "quick": {"task": "shop.ping"},
        "last": {"task": "shop.ping", "depends_on": ["slow", "quick"]},
    }
    looking.shop.ask("POST", "/v1/graphs", {"name": "Three nodes", "nodes": nodes})
    page = looking.go("/graphs")
    page.get_by_role("link", name="Three nodes").click()
    drawing = page.get_by_role("group", name="The graph")
    expect(drawing.locator("g.node")).to_have_count(3)
    expect(page.locator("main .head .badge")).to_have_text("Succeeded")
    expect(drawing.locator("g.node.critical")).to_have_count(2)
    assert drawing.get_attribute("aria-label") == "The graph; its critical path is slow, last"
    looking.shoot("graph")


def test_queues_keys_and_tenants(looking: Looking) -> None:
    page = looking.go("/queues")
    row = page.locator("tbody tr").filter(has_text="slow")
    row.get_by_role("button", name="Pause").click()
    expect(row.locator(".badge")).to_have_text("Paused")
    page.get_by_role("button", name="Undo").click()
    expect(row.locator(".badge")).to_have_text("Active")

    page.get_by_text("Settings", exact=True).click()
    page.get_by_role("link", name="Keys", exact=True).click()
    page.get_by_role("button", name="New key").click()
    page.get_by_label("Name", exact=True).fill("a script")
    page.get_by_role("button", name="Create").click()
    secret = page.locator(".secret").inner_text()
    assert secret.startswith("dt_live_")
    assert looking.shop.ask("GET", "/v1/me", key=secret)["role"] == "viewer"
    page.get_by_role("button", name="Done").click()
    page.get_by_role("button", name="Rotate a script").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Rotate a script").click()
    page.get_by_role("button", name="Rotate the key").click()
    assert looking.shop.ask("GET", "/v1/me", key=page.locator(".secret").inner_text())["role"] == "viewer"
    page.get_by_role("button", name="Done").click()
    page.get_by_role("link", name="Tenants", exact=True).click()
    page.get_by_role("button", name="New tenant").click()
    page.get_by_label("Name", exact=True).fill("acme")
    page.get_by_role("button", name="Create").click()
    page.get_by_role("link", name="acme").click()
    page.get_by_role("button", name="Edit limits").click()
    page.get_by_label("Calendars").fill("5")
    page.get_by_label("Payload bytes").fill("")
    page.get_by_role("button", name="Save limits").click()
    expect(page.get_by_role("button", name="Save limits")).to_have_count(0)
    limits = looking.shop.ask("GET", "/v1/admin/tenants/acme")["limits"]
    assert (limits["calendars"], limits["payload_bytes"], limits["secrets"]) == (5, None, 1000)
    with page.expect_navigation():
        page.locator(".rail select").focus()
        page.locator(".rail select").select_option("acme")
    expect(page.get_by_text("0 jobs with a next run")).to_be_visible()


def test_a_key_that_is_bound_and_a_session_that_is_ended(looking: Looking) -> None:
    page = looking.go("/keys?new=1")
    page.get_by_label("Name", exact=True).fill("bound")
    page.get_by_label("Expires at").fill("never")
    for number, network in enumerate(("192.0.2.0/24", "::1"), 1):
        page.get_by_role("button", name="Add to Networks").click()
        page.get_by_label(f"Networks {number}").fill(network)
    page.get_by_role("button", name="Create").click()
    page.get_by_role("button", name="Done").click()
    row = page.locator("tbody tr").filter(has_text="bound")
    expect(row).to_contain_text("192.0.2.0/24, ::1/128")
    made = [key for key in looking.shop.ask("GET", "/v1/admin/keys?page_size=200")["items"] if key["name"] == "bound"]
    assert [key["expires_at"] for key in made] == [None]

    looking.shop.ask("POST", "/login", {"key": looking.shop.make_key("operator")})
    page.get_by_role("link", name="Sessions").click()  # the group is open: one of its pages is shown
    page.get_by_role("button", name="This tenant").click()
    row = page.locator("tbody tr").filter(has_text="a operator")
    expect(row).to_contain_text("127.0.0.1")
    row.get_by_role("button", name="End").click()
    page.get_by_role("button", name="End the session", exact=True).click()
    expect(page.get_by_text("Session ended")).to_be_visible()
    expect(row).to_have_count(0)


def test_more_tenants_and_keys_than_fit(looking: Looking) -> None:
    for number in range(7):
        looking.shop.ask("POST", "/v1/admin/tenants", {"name": f"tenant-{number}"})
        looking.shop.ask("POST", "/v1/admin/keys", {"role": "viewer", "name": f"key-{number}"})
    page = looking.page
    page.route(  # as if there were hundreds: the server gives one at a time
        re.compile(r"/v1/admin/(tenants|keys)\?page_size="),
        lambda route: route.continue_(url=re.sub("page_size=[0-9]+", "page_size=1", route.request.url)),
    )
    for path, last in (("/keys", "key-6"), ("/tenants", "tenant-6")):
        looking.go(path)
        region = page.get_by_role("main")
        row = region.locator("tbody tr").filter(has_text=last)
        expect(region.locator("tbody tr").first).to_be_visible()
        while not row.count():
            shown = region.locator("tbody").first.inner_text()
            region.get_by_role("button", name="Newer →").first.click()
            expect(region.locator("tbody").first).not_to_have_text(shown, use_inner_text=True)
            expect(region.locator("tbody tr").first).to_be_visible()
        expect(row).to_be_visible()

    field = page.get_by_role("combobox", name="Tenant", exact=True)
    field.fill("nobody")
    field.press("Enter")
    expect(page.get_by_text("there is no tenant")).to_be_visible()
    expect(field).to_have_value("default")
    looking.complaints.clear()  # the browser tells of answers 404 itself
    field.fill("tenant-6")
    with page.expect_navigation():
        field.press("Enter")
    expect(page.get_by_role("combobox", name="Tenant", exact=True)).to_have_value("tenant-6")


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def reach(page: Page, words: str) -> None:
    """Press Tab until what has the focus says this."""
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            "((e) => e.getAttribute('aria-label') || (e.labels && e.labels[0] || e).innerText)(document.activeElement)"
        )
        seen.append(focused)
        if focused.strip().startswith(words):
            return
    raise AssertionError(f"{words!r} was not reached: {seen}")


def test_by_keyboard_alone(context: BrowserContext, shop: Shop) -> None:
    page = context.new_page()
    page.goto(shop.url + "/")
    reach(page, "API key")
    page.keyboard.type(shop.key)
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    press(page, "Tab")
    page.reload()
    expect(page.get_by_role("heading", level=1)).to_have_text("Now")
    page.locator("body").press("Tab")
    reach(page, "Jobs")
    press(page, "Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    reach(page, "New job")
    press(page, "Enter")
    reach(page, "Task")
    page.keyboard.type("shop.ping")
    reach(page, "Name")
    page.keyboard.type("Typed")
    reach(page, "Create")
    press(page, "Enter")
    expect(page.locator("main .head .badge")).to_have_text("Succeeded")


def test_a_viewer_sees_no_buttons(context: BrowserContext, shop: Shop) -> None:
    log_in(context, shop, shop.make_key("viewer"))
    looking = Looking(context.new_page(), shop)
    dead = shop.ask("GET", "/v1/dead-letters")["items"][0]
    job = shop.ask("GET", "/v1/jobs?name=Heartbeat")["items"][0]
    for path in ("/", "/jobs", f"/jobs/{job['job_id']}", f"/runs/{dead['run_id']}", "/dead-letters", "/queues"):
        page = looking.go(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("[aria-busy]")).to_have_count(0)
        names = {" ".join(name.split()) for name in page.locator("main button").all_inner_texts()}
        reading = {"Find", "Show values", "Copy", "Expand", "5 min", "15 min", "1 hour", "By error", "List"}
        shown = reading | {"← Newer", "Older →", "Job ↕"}
        assert names <= shown, path
        assert page.get_by_role("link", name=re.compile("^(New job|Edit|Replay with changes)$")).count() == 0
    expect(page.get_by_role("link", name="Audit")).to_have_count(0)
    assert looking.complaints == []


def test_logging_in_and_out(context: BrowserContext, shop: Shop) -> None:
    page = context.new_page()
    page.goto(shop.url + "/jobs")
    page.get_by_label("API key").fill("dt_live_wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown, expired or revoked")
    page.get_by_label("API key").fill(shop.key)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
    page.goto(f"{shop.url}/login?token=used")
    expect(page.get_by_text("This link was already used")).to_be_visible()


def test_over_plain_http_under_a_name_of_its_own(context: BrowserContext, shop: Shop) -> None:
    made = shop.submit("ping", name="Far away", every="1h")
    page = context.new_page()
    page.goto(f"{shop.url.replace('127.0.0.1', ELSEWHERE)}/jobs/{made['job_id']}")
    assert ELSEWHERE in page.url
    page.get_by_label("API key").fill(shop.key)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("main .card .badge")).to_have_text("Paused")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


def test_a_session_that_ends_asks_for_another(context: BrowserContext, shop: Shop) -> None:
    made = shop.ask("POST", "/v1/admin/keys", {"role": "viewer", "name": "short-lived"})
    log_in(context, shop, made["key"])
    page = context.new_page()
    page.goto(shop.url + "/jobs")  # it only listens: nothing but its stream learns of the end
    expect(page.get_by_role("heading", level=1)).to_have_text("Jobs")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    shop.ask("POST", f"/v1/admin/keys/{made['key_id']}/revoke")
    started = time.monotonic()
    expect(page.get_by_role("heading", level=1)).to_have_text("Session expired")
    assert time.monotonic() - started < 10


def test_a_stream_that_breaks_again_and_again_is_opened_soon(looking: Looking) -> None:
    """Waits grow while the server refuses, not because streams that were up have ended."""
    looking.page.add_init_script("""
        window.waits = [];
        window.broken = 0;
        const [fetch, wait] = [window.fetch, window.setTimeout];
        window.setTimeout = (callback, ms, ...rest) => {
            window.waits.push(ms || 0);
            return wait(callback, ms > 200 && ms <= 15000 ? 10 : ms, ...rest);
        };
        window.fetch = (path, ...rest) => {
            if (path !== "/v1/events" || window.broken >= 6) return fetch(path, ...rest);
            document.documentElement.dataset.broken = window.broken += 1;
            return Promise.resolve(new Response(new ReadableStream({
                start: (controller) => controller.enqueue(new TextEncoder().encode(": listening\\n\\n")),
                pull: (controller) => wait(() => controller.error(new TypeError("network error")), 10),
            })));
        };
    """)
    page = looking.go("/jobs")
    expect(page.locator("html")).to_have_attribute("data-broken", "6")
    expect(page.get_by_text("Live", exact=True)).to_be_visible()
    assert not {2000, 4000} & set(page.evaluate("window.waits"))


@pytest.mark.parametrize("scope", [{"owner": "scoped-ann"}, {"tag": "scoped-tag"}, {"queue": "scoped-queue"}])
def test_a_login_with_a_scope_sees_what_it_may_use(context: BrowserContext, shop: Shop, scope: dict[str, str]) -> None:
    bound = {"queues": [scope["queue"]]} if "queue" in scope else scope
    key = shop.ask("POST", "/v1/admin/keys", {"role": "operator", "name": "scoped", **bound})["key"]
    about = {"tags": [scope["tag"]]} if "tag" in scope else scope
    words = ", ".join(f"{name} {value}" for name, value in scope.items())
    shop.submit("ping", name="Not theirs", every="1h")
    job = shop.submit("ping", name="Of the scope", every="1h", **about)
    dead = shop.submit("shout", args={"text": "of the scope"}, retries=0, **about)
    log_in(context, shop, key)
    looking = Looking(context.new_page(), shop)
    page = looking.go("/")
    page.wait_for_url("**/jobs")
    expect(page.get_by_role("link", name="Of the scope")).to_be_visible()
    expect(page.get_by_role("link", name="Not theirs")).to_have_count(0)
    expect(page.get_by_role("complementary")).to_contain_text(words)
    menu = page.get_by_role("navigation", name="Pages", exact=True)
    assert menu.get_by_role("link").all_inner_texts() == ["Schedules", "Jobs", "Runs", "Dead letters"]
    assert page.get_by_role("group", name="All that match").count() == 0
    for path in ("/schedules", "/runs", "/dead-letters", "/jobs/new", f"/jobs/{job['job_id']}",
                 f"/jobs/{job['job_id']}/edit", f"/runs/{dead['run_id']}", "/jobs?order=name"):  # fmt: skip
        looking.go(path)
        expect(page.locator("main h1")).to_be_visible()
        expect(page.locator("[aria-busy]")).to_have_count(0)
        assert page.get_by_role("alert").count() == 0, path
    for path in ("/trends", "/queues", "/graphs", "/keys"):
        looking.go(path)
        expect(page.get_by_text(f"This login sees jobs of {words} only.")).to_be_visible()
    page.get_by_role("link", name="Open the jobs").click()
    page.wait_for_url("**/jobs")
    page.get_by_role("button", name="Pause Of the scope").click()
    expect(page.get_by_text("Paused Of the scope")).to_be_visible()
    looking.go("/dead-letters")
    page.get_by_role("button", name="Discard shop.shout").click()
    page.get_by_role("button", name="Discard it").click()
    expect(page.get_by_text("Discarded a run of shop.shout")).to_be_visible()
    assert looking.complaints == []
