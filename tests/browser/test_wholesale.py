"""Actions on everything that matches: counted first, followed to their end."""

import re

from playwright.sync_api import expect

from tests.browser.conftest import Looking
from tests.browser.test_pages import violations


def test_everything_that_matches_is_paused_and_cancelled(looking: Looking) -> None:
    for number in range(60):
        looking.shop.submit("ping", name=f"Herd {number}", every="1h", tags=["herd"])
    page = looking.go("/jobs?tag=herd")
    everything = page.get_by_role("group", name="All that match")
    everything.get_by_role("button", name="Pause").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Pause 60 jobs?")
    expect(dialog).to_contain_text("Herd 59")
    assert violations(page) == []
    dialog.get_by_role("button", name="Keep them").click()
    everything.get_by_role("button", name="Pause").click()
    dialog.get_by_role("button", name="Pause 60 jobs").click()
    expect(page.get_by_text("Pause jobs: 60 done")).to_be_visible()
    expect(page.locator("tbody .badge.warn")).to_have_count(50)
    looking.shoot("bulk")
    everything.get_by_role("button", name="Pause").click()
    expect(dialog).to_contain_text("60 jobs match, and none of them changes.")
    dialog.get_by_role("button", name="Close").click()
    everything.get_by_role("button", name="Cancel").click()
    dialog.get_by_role("button", name="Cancel 60 jobs").click()
    expect(page.get_by_text("Cancel jobs: 60 done")).to_be_visible()
    page.get_by_role("link", name="Bulk actions").first.click()
    row = page.get_by_role("row").filter(has_text="Cancel jobs").first
    expect(row).to_contain_text("tag = herd")
    expect(row).to_contain_text(re.compile("done"))


def test_a_bulk_action_is_stopped(looking: Looking) -> None:
    for number in range(30):
        looking.shop.submit("ping", name=f"Slow herd {number}", every="1h", tags=["slowly"])
    looking.shop.ask("POST", "/v1/bulk-actions", {"action": "run", "jobs": {"tag": "slowly"}, "rate": 0.5})
    page = looking.go("/bulk-actions")
    row = page.get_by_role("row").filter(has_text="tag = slowly")
    row.get_by_role("button", name="Stop").click()
    expect(row).to_contain_text("stopped")
    expect(row.get_by_role("button", name="Stop")).to_have_count(0)


def test_a_part_of_a_text_finds_a_job(looking: Looking) -> None:
    made = looking.shop.submit("ping", name="Quarterly ledger", every="1h", tags=["finance-eu"], owner="acme-42")
    page = looking.go("/jobs")
    for text in ("LEDGER", "nance-e", "cme-4", made["job_id"][:-1]):
        page.get_by_role("searchbox", name="Search text").fill(text)
        page.get_by_role("button", name="Find").click()
        page.wait_for_url(f"**search={text}*")
        expect(page.locator("tbody tr")).to_have_count(1)
        expect(page.get_by_role("link", name="Quarterly ledger")).to_be_visible()
    assert violations(page) == []


def test_schedules_are_apart_from_one_off_jobs(looking: Looking) -> None:
    looking.shop.submit("ping", name="Only once", run_in="2h", tags=["apart"])
    made = looking.shop.submit("ping", name="Again and again", every="1h", tags=["apart"])
    looking.shop.ask("POST", f"/v1/jobs/{made['job_id']}/pause")
    page = looking.go("/schedules?tag=apart")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.locator("main .head p")).to_contain_text("active")
    page.get_by_role("link", name=re.compile("paused$")).click()
    expect(page.get_by_role("link", name="Again and again")).to_be_visible()
    expect(page.get_by_role("link", name="Only once")).to_have_count(0)


def test_the_keyboard_reaches_everything(looking: Looking) -> None:
    looking.shop.submit("ping", name="Reached by keys", every="1h")
    page = looking.go("/jobs")
    page.get_by_role("heading", level=1, name="Jobs").focus()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox", name="Search text")).to_be_focused()
    page.get_by_role("heading", level=1, name="Jobs").focus()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    assert violations(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    box = page.get_by_role("dialog", name="Open a page, job or run")
    box.get_by_role("searchbox").fill("workers")
    assert violations(page) == []
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Workers")
    page.keyboard.press("Control+k")
    box.get_by_role("searchbox").fill("ached by k")
    box.get_by_role("link", name="Reached by keys").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Reached by keys")


def test_a_dialog_that_was_closed_does_not_close_the_next_one(looking: Looking) -> None:
    page = looking.go("/jobs")
    box = page.get_by_role("dialog", name="Open a page, job or run")
    for opened in ("?", "Control+k"):
        page.get_by_role("heading", level=1, name="Jobs").focus()
        page.keyboard.press(opened)
        expect(page.get_by_role("dialog")).to_be_visible()
        page.evaluate("""() => new Promise((seen) => {
            const dialog = document.querySelector("dialog[open]")
            dialog.addEventListener("close", () => setTimeout(seen, 100))
            dialog.close()
            document.dispatchEvent(new KeyboardEvent("keydown", {key: "k", ctrlKey: true}))
        })""")
        expect(box.get_by_role("searchbox")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_list_is_sorted_by_name(looking: Looking) -> None:
    for name in ("Zulu", "Alpha", "Mike"):
        looking.shop.submit("ping", name=f"{name} of the sorted", every="1h", queue="sorted")
    page = looking.go("/schedules?queue=sorted")
    names = page.locator("tbody .job-name")
    expect(names).to_have_text(["Mike of the sorted", "Alpha of the sorted", "Zulu of the sorted"])
    page.get_by_role("button", name="Job").click()
    page.wait_for_url("**order=name*")
    expect(names).to_have_text(["Alpha of the sorted", "Mike of the sorted", "Zulu of the sorted"])
    expect(page.get_by_role("columnheader", name="Job")).to_have_attribute("aria-sort", "ascending")
    assert violations(page) == []
    page.get_by_role("button", name="Job").click()
    expect(names).to_have_text(["Zulu of the sorted", "Mike of the sorted", "Alpha of the sorted"])
    page.reload()
    expect(names).to_have_text(["Zulu of the sorted", "Mike of the sorted", "Alpha of the sorted"])
    page.go_back()
    page.go_back()
    expect(names).to_have_text(["Mike of the sorted", "Alpha of the sorted", "Zulu of the sorted"])


def test_dead_letters_are_a_list_too(looking: Looking) -> None:
    for number in range(2):
        looking.shop.submit("shout", args={"text": f"boom: listed {number}"}, retries=0, queue="listed")
    page = looking.go("/dead-letters")
    page.get_by_role("button", name="List").click()
    page.get_by_label("Text of the error").fill("boom: listed")
    page.get_by_role("button", name="Find").click()
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(2)
    assert violations(page) == []
    looking.shoot("dead-letters-list")
    page.reload()
    expect(rows).to_have_count(2)
    rows.first.get_by_role("button", name="Discard").click()
    page.get_by_role("button", name="Discard it").click()
    expect(rows).to_have_count(1)
    rows.first.get_by_role("button", name="Replay").click()
    expect(page.get_by_text("Replayed a run of shop.shout")).to_be_visible()
    page.goto(f"{looking.shop.url}/dead-letters")
    group = page.get_by_role("article").filter(has_text="boom: listed")
    group.get_by_role("link", name="all of them").click()
    expect(rows.first).to_contain_text("boom: listed")
