"""Every option is accepted and means the same at every entry point: in an app, over HTTP, on the command line and in
the dashboard's form. The entry points without a browser are tested without one."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from playwright.sync_api import Browser

from duetime import App
from duetime.model.job import NewJob
from duetime.sdk.order import Order, make_jobs
from duetime.settings import Settings
from duetime.spec.dependencies import Needs
from duetime.spec.derived import OPTIONS
from duetime.targets.validation import TargetRules
from tests.browser.conftest import Shop
from tests.browser.test_job_form import of_body, typed
from tests.unit.test_options import BESIDE, JOB, NOW, by_command, meaning, over_http, values_of

_FIELDS = """async (texts) => {
    const script = document.querySelector("script[type=module]").src;
    const { empty, fieldsOf } = await import(new URL("core/job_fields.js", script));
    return fieldsOf({ ...empty(), tz: "", task: "greet", ...texts });
}"""
"""The body of the request for a form with these texts."""

Enter = Callable[[dict[str, Any]], NewJob]
app = App()


@app.task(name="greet")
async def greet() -> None: ...


def in_an_app(given: dict[str, Any]) -> NewJob:
    order = Order(greet.bind(), b"{}", given, once=False)
    (job,) = make_jobs([order], lambda: TargetRules(Settings()), max_payload=1000, now=NOW)
    return msgspec.structs.replace(job, id=JOB)


@pytest.fixture(scope="module")
def in_the_form(browser: Browser, shop: Shop) -> Enter:
    page = browser.new_page()
    page.goto(f"{shop.url}/jobs/new")
    return lambda given: of_body(page.evaluate(_FIELDS, {name: typed(name, value) for name, value in given.items()}))


@pytest.fixture(scope="module", params=["SDK", "API", "CLI", "dashboard"])
def enter(request: pytest.FixtureRequest) -> Enter:
    entries = {"SDK": in_an_app, "API": over_http, "CLI": by_command}
    return entries.get(request.param) or request.getfixturevalue("in_the_form")


@pytest.mark.parametrize("name", OPTIONS)
@settings(max_examples=20)
@given(data=st.data())
def test_an_option_means_the_same_everywhere(name: str, enter: Enter, data: st.DataObject) -> None:
    given = {**BESIDE.get(name, {}), name: data.draw(values_of(name), name)}
    if enter is by_command and isinstance(given[name], Needs):
        return  # a flag names the jobs only
    assert enter(given) == meaning(given)
