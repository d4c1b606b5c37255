"""The job form: it shows every declared option, and sends what was typed."""

from typing import Any

import msgspec
from hypothesis import Phase, find, settings
from playwright.sync_api import expect

from duetime.model.job import NewJob
from duetime.model.schedule import KINDS
from duetime.spec.derived import OF_EDITS, OPTIONS
from duetime.wire.jobs import JobRequest
from tests.browser.conftest import Looking
from tests.browser.test_pages import violations
from tests.unit.test_options import BESIDE, made, over_http, values_of

_ANY = settings(phases=[Phase.generate], derandomize=True, database=None)
"""The first value is as good as the simplest one, which would take ten seconds of processor time to find."""
_FILL = """(texts) => Object.entries(texts).forEach(([name, text]) => {
    const field = document.getElementById(name);
    field.value = text;
    field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", { bubbles: true }));
})"""


def typed(name: str, value: Any) -> str:
    """What a person types into the field of an option."""
    written = OPTIONS[name].kind.write(value)
    if name == "exclude":
        return ", ".join(day for days in written.values() if not isinstance(days, str) for day in days)
    if isinstance(written, dict | msgspec.Struct):
        return msgspec.json.encode(written).decode()
    return ", ".join(written) if isinstance(written, list | tuple) else str(written)


def of_body(body: Any) -> NewJob:
    return made(msgspec.convert(body, JobRequest))


def test_every_option_has_a_field_with_its_help(looking: Looking) -> None:
    page = looking.go("/jobs/new")
    page.route("**/v1/jobs", lambda route: route.abort())
    page.get_by_label("Task", exact=True).fill("greet")
    page.get_by_text("More options").click()
    given = {name: find(values_of(name), bool, settings=_ANY) for name in OPTIONS}
    page.evaluate(_FILL, {name: typed(name, value) for name, value in given.items()})
    helps = page.evaluate("() => [...document.querySelectorAll('.hint[id]')].map((hint) => [hint.id, hint.innerText])")
    assert dict(helps) == {f"{name}-hint": each.option.doc.replace("`", "") for name, each in OPTIONS.items()}
    with page.expect_request(lambda request: request.url.endswith("/v1/jobs")) as asked:
        page.get_by_role("button", name="Create").click()
    sent = asked.value.post_data_json
    for name, value in given.items():
        beside = BESIDE.get(name, {})
        assert of_body({"task": "greet", **beside, name: sent[name]}) == over_http({**beside, name: value}), name
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
    looking.complaints.clear()  # the browser tells of requests without an answer itself


def test_an_edit_offers_what_an_edit_may_change(looking: Looking) -> None:
    made = looking.shop.submit("ping", every="1h", timeout="30s", misfire="all", tags=["ops"], concurrency_key="c")
    page = looking.go(f"/jobs/{made['job_id']}/edit")
    expect(page.locator("#timeout")).to_have_value("30")
    shown = {str(field.get_attribute("id")) for field in page.locator("form [name]").all()}
    assert shown == OF_EDITS.keys() - {*KINDS} | {"when", "task", "args"}
    before = looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}")
    page.locator("#timeout").fill("")
    page.locator("#tags").fill("")
    page.locator("#warn_after").fill("5m")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed shop.ping")).to_be_visible()
    after = looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}")
    changed = {name for name in before if before[name] != after[name]}
    assert changed - {"version"} == {"timeout", "tags", "warn_after"}


def test_an_edit_of_the_time_keeps_what_accompanies_it(looking: Looking) -> None:
    bounds = {"tz": "Europe/Berlin", "end_at": "2031-01-01T00:00:00Z", "exclude": {"weekdays": ["SUN"]}}
    made = looking.shop.submit("ping", cron="0 12 * * *", **bounds)
    page = looking.go(f"/jobs/{made['job_id']}/edit")
    page.locator("#when").fill("5 12 * * *")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Changed shop.ping")).to_be_visible()
    schedule = looking.shop.ask("GET", f"/v1/jobs/{made['job_id']}")["schedule"]
    found = {name: schedule[name] for name in ("exact", "tz", "end_at")} | {"days": schedule["exclude"]["weekdays"]}
    assert found == {"exact": "cron 5 12 * * *", "tz": "Europe/Berlin", "end_at": bounds["end_at"], "days": ["SUN"]}


def test_the_arguments_of_a_task_have_fields(looking: Looking) -> None:
    page = looking.go("/jobs/new")
    page.get_by_label("Task", exact=True).fill("shop.ship")
    fields = page.get_by_role("group", name="Arguments")
    expect(fields.get_by_label("count")).to_have_attribute("min", "1")
    expect(fields).to_contain_text("How many boxes.")
    expect(fields.get_by_label("on", exact=True)).to_have_attribute("type", "date")
    fields.get_by_label("on", exact=True).fill("2027-01-31")
    fields.get_by_label("size").select_option("large")
    fields.get_by_label("weight").fill("1.5")
    page.get_by_role("button", name="Create").click()
    assert fields.get_by_label("street").evaluate("(field) => field.validity.valueMissing"), "it is not sent"
    fields.get_by_label("street").fill("Main")
    fields.get_by_label("number").fill("7")

    fields.get_by_role("button", name="Add to labels").click()
    fields.get_by_label("labels 1").fill("fragile")
    fields.get_by_role("button", name="Add to labels").click()
    fields.get_by_label("labels 2").fill("heavy")
    fields.get_by_role("button", name="Remove labels 1").click()
    expect(fields.get_by_label("labels 1")).to_have_value("heavy")
    fields.get_by_label("Kind of paid").select_option("card")
    fields.get_by_label("last4").fill("1234")
    fields.get_by_role("button", name="Add to stops").click()
    stop = fields.get_by_role("group", name="stops 1")
    stop.get_by_label("street").fill("Side")
    stop.get_by_label("number").fill("3")
    fields.get_by_role("button", name="Add back").click()
    assert violations(page) == []
    looking.shoot("new-job-arguments")
    fields.get_by_role("button", name="Remove back").click()

    page.get_by_role("button", name="As JSON").click()
    wanted = {
        "to": {"street": "Main", "number": 7},
        "on": "2027-01-31",
        "size": "large",
        "weight": 1.5,
        "labels": ["heavy"],
        "paid": {"type": "card", "last4": "1234"},
        "stops": [{"street": "Side", "number": 3}],
    }
    text = page.get_by_label("Arguments, as JSON")
    assert msgspec.json.decode(text.input_value()) == wanted
    page.get_by_role("button", name="As fields").click()
    expect(fields.get_by_label("Kind of paid").locator("option:checked")).to_have_text("card")
    expect(fields.get_by_label("last4")).to_have_value("1234")
    with page.expect_response(lambda answer: answer.url.endswith("/v1/jobs")) as made:
        page.get_by_role("button", name="Create").click()
    job = looking.shop.ask("GET", f"/v1/jobs/{made.value.json()['job_id']}")
    assert job["args"] == wanted
    page.goto(f"{looking.shop.url}/jobs/new")
    page.get_by_label("Task", exact=True).fill("shop.ship")
    page.get_by_role("button", name="As JSON").click()
    text.fill('{"to": {"street": "Main", "unknown": 1}}')
    expect(page.get_by_role("button", name="As fields")).to_have_count(0)


def test_arguments_of_other_tasks_are_json(looking: Looking) -> None:
    page = looking.go("/jobs/new")
    expect(page.get_by_label("Arguments, as JSON")).to_be_visible()
    for task in ("unknown", "shop.ping"):
        page.get_by_label("Task", exact=True).fill(task)
        expect(page.get_by_label("Arguments, as JSON")).to_be_visible()
