"""Default options of a tenant: every one means at every entry point what it would mean if the submission gave it."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime import App, RetryPolicy
from duetime.errors import InvalidInput
from duetime.model.defaults import Defaults, decode_defaults, encode_defaults
from duetime.model.job import NewJob
from duetime.model.schedule import Once
from duetime.sdk.order import Order, make_jobs
from duetime.sdk.task import Task
from duetime.settings import Settings
from duetime.spec.derived import OF_TASKS, OF_TENANTS, OPTIONS, POLICIES
from duetime.spec.resolved import NOTHING_GIVEN, base_of, tenant_base
from duetime.targets.validation import TargetRules
from tests.unit.test_options import BESIDE, JOB, NOW, by_command, meaning, over_http, values_of, wrong_value_of

app = App()


@app.task(name="greet")
async def greet() -> None: ...


def of_app(asked: dict[str, Any], usual: Defaults, task: Task[..., Any] = greet) -> NewJob:
    order = Order(task.bind(), b"{}", asked, once=False)
    base = base_of(usual)
    (job,) = make_jobs([order], lambda: TargetRules(Settings()), max_payload=1000, usual=base, now=NOW)
    return msgspec.structs.replace(job, id=JOB)


def encoded(options: dict[str, Any]) -> Defaults:
    return encode_defaults({name: OPTIONS[name].kind.write(value) for name, value in options.items()})


def beside(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """What an option needs beside it: of the tenant, and of the submission."""
    needed = BESIDE.get(name, {})
    usual = {each: value for each, value in needed.items() if each in OF_TENANTS}
    return usual, {each: value for each, value in needed.items() if each not in OF_TENANTS}


@pytest.mark.parametrize("enter", [of_app, over_http, by_command])
@pytest.mark.parametrize("name", OF_TENANTS)
@settings(max_examples=5)
@given(data=st.data())
def test_a_default_means_what_the_option_means(
    name: str, enter: Callable[[dict[str, Any], Defaults], NewJob], data: st.DataObject
) -> None:
    usual, asked = beside(name)
    usual[name] = data.draw(values_of(name), name)
    assert enter(asked, encoded(usual)) == meaning({**usual, **asked})


@pytest.mark.parametrize("name", OF_TENANTS)
@settings(max_examples=10)
@given(data=st.data())
def test_the_nearest_value_counts(name: str, data: st.DataObject) -> None:
    """The submission, the task, the tenant: the same order in an app on a store, over HTTP, and from a remote app."""
    others = [each for each in ("retry", "retries", "delivery") if name in ("retry", "retries", "delivery")]
    names = st.sampled_from([name, *others])

    def some(places: Any) -> dict[str, Any]:
        drawn = data.draw(st.sets(names, max_size=2))
        return {each: data.draw(values_of(each), each) for each in sorted(drawn) if each in places}

    usual, asked = beside(name)
    try:
        usual |= some(OF_TENANTS)
        tenant_base(usual)
        task = App().task(name="greet", **some(OF_TASKS))(greet.function)  # type: ignore[call-overload]
    except InvalidInput:
        return  # not a valid default by itself
    asked |= some(OPTIONS)
    remote = Order(task.bind(), b"{}", asked, once=False).given
    entries: list[Callable[[], NewJob]] = [
        lambda: of_app(asked, encoded(usual), task),
        lambda: over_http(asked, encoded(usual), task.defaults),
        lambda: over_http(remote, encoded(usual)),
        lambda: over_http(remote, encoded(usual), task.defaults),
    ]
    first, *rest = [_outcome(enter) for enter in entries]
    assert rest == [first] * 3
    if isinstance(first, NewJob) and name in asked and name not in ("retries", "retry", "delivery"):
        explicit = _outcome(lambda: meaning({**usual, **asked}))
        assert name in task.declared or first == explicit


def _outcome(enter: Callable[[], NewJob]) -> NewJob | str:
    try:
        return enter()
    except InvalidInput as error:
        return error.message


@pytest.mark.parametrize("name", OF_TENANTS)
def test_a_default_is_checked_like_the_option(name: str) -> None:
    usual, _ = beside(name)
    with pytest.raises(InvalidInput) as caught:
        tenant_base({**usual, name: wrong_value_of(name)})
    assert (caught.value.field or "").partition(".")[0] == name


@pytest.mark.parametrize("name", sorted(OPTIONS.keys() - OF_TENANTS.keys()))
def test_what_describes_one_job_is_no_default(name: str) -> None:
    with pytest.raises(InvalidInput, match="is not an option"):
        tenant_base({name: "x"})


def test_what_a_job_cannot_have_does_not_apply_to_it() -> None:
    usual = encode_defaults({"overlap": "skip", "jitter": "1m", "misfire": "skip", "tz": "Europe/Berlin"})
    once = of_app({}, usual)
    assert isinstance(once.schedule, Once) and once.options is None
    assert of_app({"run_in": "1h"}, usual) == meaning({"run_in": "1h", "tz": "Europe/Berlin"})
    for cron in ("CRON_TZ=Asia/Tokyo 0 9 * * *", "0 9 * * *"):
        zone = of_app({"cron": cron}, usual).schedule.zone  # type: ignore[union-attr]
        assert zone == ("Asia/Tokyo" if "Tokyo" in cron else "Europe/Berlin")
    begin = of_app({"rrule": "DTSTART:20260105T090000Z RRULE:FREQ=DAILY"}, usual).schedule
    assert begin.zone == "UTC", "Z names a zone"  # type: ignore[union-attr]
    assert POLICIES.keys() == {"misfire", "overlap", "jitter"}


def test_a_default_of_at_most_once_gives_way_to_retries() -> None:
    usual = encode_defaults({"delivery": "at_most_once"})
    assert meaning({"retries": 4}) == of_app({"retries": 4}, usual)
    careful = App().task(name="greet", retry=RetryPolicy(retries=4))(greet.function)  # type: ignore[call-overload]
    assert of_app({}, usual, careful) == meaning({"retries": 4})
    assert of_app({"delivery": "at_least_once"}, usual) == meaning({}), "with the usual retries"
    strict = App().task(name="greet", delivery="at_most_once")(greet.function)  # type: ignore[call-overload]
    with pytest.raises(InvalidInput, match="does not allow retries"):
        of_app({"retries": 4}, usual, strict)


def test_what_another_release_has_stored_stops_nothing() -> None:
    for body in (b"[1]", b"{", b'{"unheard_of": 1}', b'{"timeout": "soon"}'):
        assert base_of(body, body) == NOTHING_GIVEN, body
    assert decode_defaults(b"\xff") == {}
