"""Options of jobs: how they are declared, read and refused. `tests/browser/test_same_options.py` compares the entry
points."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_type_hints

import msgspec
import pytest
from hypothesis import strategies as st

from duetime import ids
from duetime.api.job_maker import JobMaker
from duetime.api.task_registry import NO_TASKS
from duetime.cli.job_options import flags_of, read_flags
from duetime.errors import InvalidInput
from duetime.model.defaults import Defaults
from duetime.model.job import NewJob
from duetime.model.name import check_key
from duetime.model.policy import Misfire
from duetime.model.retry import RetryPolicy
from duetime.model.schedule import Exclusion
from duetime.settings import Settings
from duetime.spec import kinds
from duetime.spec.dependencies import Needs
from duetime.spec.derived import OF_EDITS, OF_SCHEDULES, OF_SUBMISSIONS, OF_TASKS, OPTIONS
from duetime.spec.options import EditOptions, ScheduleOptions, SubmitOptions, TaskOptions
from duetime.spec.resolved import HANDLED, NOTHING_GIVEN, STORED, resolve
from duetime.spec.shown import read_shown, shown_options
from duetime.targets.validation import TargetRules
from duetime.wire.jobs import JobPatch, JobRequest
from tests.support import options_doc

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
JOB = ids.new_id()
OTHER = ids.show("job", JOB)

words = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/@-]{0,20}", fullmatch=True)
keys = st.text(
    st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=("L", "N", "P")), min_size=1, max_size=20
)
seconds = st.one_of(st.integers(1, 86_400), st.integers(1, 86_400).map(lambda n: timedelta(seconds=n)))
lengths = st.one_of(seconds, st.sampled_from(["90s", "15m", "1h30m", "PT15M"]))
moments = st.one_of(
    st.integers(90, 1000).map(lambda days: NOW + timedelta(days=days)),
    st.just("2027-01-31T09:00:00+01:00"),
)
policies = st.builds(
    RetryPolicy,
    retries=st.integers(0, 9),
    base=st.sampled_from([0.5, 5.0]),
    give_up_on=st.sampled_from([(), (ValueError, "shop.SoldOut")]),
)
OF_KINDS: dict[object, tuple[st.SearchStrategy[Any], object]] = {
    kinds.read_name: (words, 5),
    check_key: (keys, 5),
    kinds.read_seconds: (lengths, -1),
    kinds.read_count: (st.integers(1, 1000), -1),
}
"""By how an option is read: values of it, and an invalid one."""
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "priority": st.sampled_from(["HIGH", "MEDIUM", "LOW"]),
    "retry": policies,
    "delivery": st.sampled_from(["at_least_once", "at_most_once"]),
    "rate": st.sampled_from(["100/m", "5/s", "10/30s", "60/60s"]),
    "retention": st.sampled_from(["1d", "90d", 100_000, timedelta(days=7)]),
    "tags": st.lists(words, max_size=5),
    "when": st.sampled_from(["every weekday at 9am", "tomorrow at 8"]),
    "tz": st.sampled_from(["Europe/Berlin", "UTC"]),
    "run_at": moments,
    "run_in": lengths,
    "depends_on": st.sampled_from([[JOB], [OTHER], Needs([OTHER], need="any", on="finished")]),
    "cron": st.just("0 9 * * MON-FRI"),
    "every": lengths,
    "rrule": st.just("DTSTART:20260105T090000 RRULE:FREQ=WEEKLY;INTERVAL=2"),
    "day_match": st.just("both"),
    "start_at": moments,
    "end_at": moments,
    "exclude": st.sampled_from([{"weekdays": ["SUN"], "dates": ["2026-12-25"]}, Exclusion(weekdays=("SUN",))]),
    "misfire": st.sampled_from(["skip", "all", Misfire("all", most=5)]),
    "overlap": st.sampled_from(["allow", "skip", "queue", "replace"]),
    "after": st.sampled_from([OTHER, JOB, {"job": OTHER, "on": "any"}]),
}
"""Of the other options."""
BESIDE: dict[str, dict[str, Any]] = {
    "concurrency": {"concurrency_key": "c"},
    "rate_key": {"rate": "1/s"},
    "rate": {"rate_key": "r"},
    "tz": {"cron": "0 9 * * *"},
    "day_match": {"cron": "0 9 1 * MON"},
    **{name: {"every": "1d"} for name in ("start_at", "end_at", "exclude", "misfire", "overlap", "jitter", "max_runs")},
}
"""What an option needs beside it."""
WRONG: dict[str, object] = {
    **dict.fromkeys(("priority", "rate", "tags", "delivery", "when", "tz", "cron", "rrule", "overlap"), 5),
    **dict.fromkeys(("run_at", "start_at", "end_at", "depends_on", "after", "misfire", "day_match"), "nonsense"),
    **dict.fromkeys(("run_in", "every"), -1),
    "retry": {"retries": -1},
    "exclude": {"weekdays": ["NEVERDAY"]},
}


def values_of(name: str) -> st.SearchStrategy[Any]:
    return VALUES[name] if name in VALUES else OF_KINDS[OPTIONS[name].kind.read][0]


def wrong_value_of(name: str) -> object:
    return WRONG[name] if name in WRONG else OF_KINDS[OPTIONS[name].kind.read][1]


def meaning(given: dict[str, Any]) -> NewJob:
    """What these options mean, as they are declared."""
    return resolve(NOTHING_GIVEN, given, now=NOW).job(1, "greet", b"{}", job_id=JOB)


def over_http(given: dict[str, Any], usual: Defaults = None, task: Defaults = None) -> NewJob:
    body = {name: OPTIONS[name].kind.write(value) for name, value in given.items()}
    return made(msgspec.json.decode(msgspec.json.encode({"task": "greet", **body}), type=JobRequest), usual, task)


def by_command(given: dict[str, Any], usual: Defaults = None) -> NewJob:
    flags = {name: _typed(name, OPTIONS[name].kind.write(value)) for name, value in given.items()}
    assert flags.keys() <= flags_of(OPTIONS.values()).keys()
    return made(msgspec.convert({"task": "greet", **read_flags(flags)}, JobRequest), usual)


def _typed(name: str, value: Any) -> Any:
    """What a person would type after the flag."""
    if OPTIONS[name].kind.flag is int:
        return value
    if name == "exclude":
        return [day for days in value.values() if not isinstance(days, str) for day in days]
    if isinstance(value, dict):
        return msgspec.json.encode(value).decode()
    return [str(each) for each in value] if isinstance(value, list | tuple) else str(value)


def made(request: JobRequest, usual: Defaults = None, task: Defaults = None) -> NewJob:
    rules, known = TargetRules(Settings()), NO_TASKS._replace(defaults={"greet": task})
    maker = JobMaker(tenant_id=1, max_payload=1000, targets=rules, usual=usual, known=known, now=NOW)
    return maker.make(request, job_id=JOB)


@pytest.mark.parametrize("name", OPTIONS)
def test_what_cannot_be_meant_is_refused_everywhere(name: str) -> None:
    given = {**BESIDE.get(name, {}), name: wrong_value_of(name)}
    with pytest.raises(InvalidInput) as refused:
        meaning(given)
    assert refused.value.field is not None and name in refused.value.field
    with pytest.raises((InvalidInput, msgspec.ValidationError)):
        over_http(given)


def test_more_tags_than_the_api_takes_are_refused_in_python_too() -> None:
    with pytest.raises(InvalidInput, match="tags: 60 tags are too many"):
        meaning({"tags": [f"t{number}" for number in range(60)]})


def test_a_policy_keeps_its_errors_under_at_most_once() -> None:
    given = {"delivery": "at_most_once", "retry": RetryPolicy(retries=0, give_up_on=("shop.SoldOut",))}
    assert over_http(given) == meaning(given)
    assert resolve(NOTHING_GIVEN, given).options.retry.give_up_on == ("shop.SoldOut",)


def test_every_option_is_kept_somewhere() -> None:
    assert OPTIONS.keys() == STORED | HANDLED


@pytest.mark.parametrize(("declared", "places"), [
    (TaskOptions, OF_TASKS), (SubmitOptions, OF_SUBMISSIONS), (ScheduleOptions, OF_SCHEDULES), (EditOptions, OF_EDITS),
])  # fmt: skip
def test_what_a_type_checker_accepts_is_what_is_declared(declared: type, places: dict[str, object]) -> None:
    assert get_type_hints(declared).keys() - {"connection"} == places.keys()


def test_requests_and_patches_have_every_option() -> None:
    assert {*OPTIONS, "task", "target", "callback_url", "args", "once"} == {*JobRequest.__struct_fields__}
    assert {*OF_EDITS, "target", "args"} == {*JobPatch.__struct_fields__}


def test_what_an_answer_shows_is_read_back() -> None:
    given = {"queue": "q", "retries": 2, "every": "1d", "misfire": "all", "concurrency_key": "c", "tags": ["a"]}
    resolved = resolve(NOTHING_GIVEN, given | {"warn_after": "5m", "delivery": "at_least_once"})
    assert read_shown(shown_options(resolved)) == resolved.options


def test_the_page_is_in_step() -> None:
    assert options_doc.PAGE.read_text(encoding="utf-8") == options_doc.render(), "run: make docs"
