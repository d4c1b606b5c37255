"""A click whose answer is lost, and the next click: together they do one thing."""

from collections.abc import Callable

from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Looking


def cut_first(page: Page, pattern: str) -> list[dict[str, str]]:
    """Let requests reach the server, and lose the answer to the first; returns the headers of all, as they are made."""
    asked: list[dict[str, str]] = []

    def handle(route: Route) -> None:
        asked.append(route.request.headers)
        if len(asked) == 1:
            route.fetch()
            route.abort()
        else:
            route.continue_()

    page.route(pattern, handle)
    return asked


def click_twice(looking: Looking, click: Callable[[], None], done: str) -> None:
    page = looking.page
    click()
    expect(page.get_by_text("The server cannot be reached").first).to_be_visible()
    click()
    expect(page.get_by_text(done).first).to_be_visible()
    looking.complaints.clear()  # the browser tells of requests without an answer itself


def test_run_now_makes_one_run(looking: Looking) -> None:
    made = looking.shop.submit("ping", every="1d", name="Once a day")
    page = looking.go(f"/jobs/{made['job_id']}")
    asked = cut_first(page, "**/trigger")
    button = page.get_by_role("button", name="Run now")
    click_twice(looking, button.click, "Started an extra run")

    def runs() -> int:
        return len(looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}/runs")["items"])

    assert runs() == 1
    with page.expect_response("**/trigger"):
        button.click()  # after an answer it is a new action
    assert runs() == 2
    keys = [each["idempotency-key"] for each in asked]
    assert keys[0] == keys[1] != keys[2]


def test_an_answer_to_another_action_on_the_object_ends_a_key(looking: Looking) -> None:
    made = looking.shop.submit("ping", every="1d", name="Twice")
    page = looking.go(f"/jobs/{made['job_id']}")
    asked = cut_first(page, "**/pause")
    page.get_by_role("button", name="Pause Twice").click()
    expect(page.get_by_text("The server cannot be reached").first).to_be_visible()
    page.get_by_role("button", name="Resume Twice").click()  # it was paused, and the page has heard of it
    expect(page.get_by_role("button", name="Pause Twice")).to_be_visible()
    page.get_by_role("button", name="Pause Twice").click()
    expect(page.get_by_role("button", name="Resume Twice")).to_be_visible()
    assert len({each["idempotency-key"] for each in asked}) == 2
    looking.complaints.clear()


def test_a_form_creates_one_job(looking: Looking) -> None:
    page = looking.go("/jobs/new")
    asked = cut_first(page, "**/v1/jobs")
    page.get_by_label("Task", exact=True).fill("shop.only_once")
    create = page.get_by_role("button", name="Create")
    create.click()
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    create.click()
    expect(page.get_by_text("Job created").first).to_be_visible()
    looking.complaints.clear()
    assert asked[0]["duetime-nonce"] == asked[1]["duetime-nonce"]
    found = looking.shop.ask("GET", "/v1/runs?task=shop.only_once")["items"]
    assert len(found) == 1


def test_a_retry_and_a_replay_have_keys(looking: Looking) -> None:
    made = looking.shop.submit("shout", args={"text": "boom: once"}, retries=0)
    page = looking.go(f"/runs/{made['run_id']}")
    asked = cut_first(page, "**/retry")
    click_twice(looking, page.get_by_role("button", name="Retry").first.click, "Created a new run")
    assert asked[0]["idempotency-key"] == asked[1]["idempotency-key"]
    assert len(looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}/runs")["items"]) == 2
