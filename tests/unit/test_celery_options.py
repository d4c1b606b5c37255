"""Celery's options, beat entries and names in duetime's words: translated, or refused with the remedy."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from celery.schedules import crontab as celerys_crontab

import duetime
from duetime import InvalidInput, NotFound
from duetime.celery import Celery, chain, chord, crontab, group, schedule, shared_task
from duetime.celery.beat import read_beat
from duetime.celery.options import call_options, read_rate
from duetime.clock import SystemClock
from duetime.sdk.preview import preview

START = datetime(2027, 1, 30, 22, 30, tzinfo=UTC)


@pytest.fixture
def app() -> Celery:
    return Celery("shop", duetime.App())


def charged(order: int) -> None:
    """Its process finds it by its name."""


def refused(what: Callable[[], Any]) -> tuple[str | None, str | None]:
    with pytest.raises(InvalidInput) as caught:
        what()
    return caught.value.field, caught.value.remedy


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"countdown": 5}, {"run_in": 5.0}),
        ({"eta": "2027-07-01T09:00:00"}, {"run_at": datetime(2027, 7, 1, 7, tzinfo=UTC)}),
        ({"eta": datetime(2027, 7, 1, 9, tzinfo=UTC)}, {"run_at": datetime(2027, 7, 1, 9, tzinfo=UTC)}),
        ({"expires": 60}, {"expires_in": 60.0}),
        ({"expires": 60, "countdown": 20}, {"run_in": 20.0, "expires_in": 40.0}),
        ({"queue": "mail", "priority": "HIGH", "key": "k"}, {"queue": "mail", "priority": "HIGH", "key": "k"}),
        ({"serializer": "json", "queue": None}, {}),
    ],
)
def test_a_call(given: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert call_options(given, ZoneInfo("Europe/Berlin")) == wanted


def test_an_expiry_at_a_time_counts_from_the_due_time() -> None:
    eta = SystemClock().now() + timedelta(hours=2)
    found = call_options({"eta": eta, "expires": eta + timedelta(minutes=5)}, UTC)
    assert found["expires_in"] == 300


@pytest.mark.parametrize(
    ("given", "field", "remedy"),
    [
        ({"task_id": "x"}, "task_id", "idempotency_key="),
        ({"link": 1}, "link", "chain("),
        ({"link_error": 1}, "link_error", "on_failure"),
        ({"priority": 9}, "priority", "'HIGH', 'MEDIUM' or 'LOW'"),
        ({"serializer": "pickle"}, "serializer", "JSON"),
        ({"countdown": 1, "eta": START}, "eta", "one of them"),
        ({"countdown": "soon"}, "countdown", ""),
        ({"expires": 10, "countdown": 60}, "expires", "later"),
        ({"eta": "tomorrow"}, "eta", ""),
    ],
)
def test_a_call_that_is_refused(given: dict[str, Any], field: str, remedy: str) -> None:
    found, advice = refused(lambda: call_options(given, UTC))
    assert (found, remedy in (advice or "")) == (field, True)


def test_a_decorator(app: Celery) -> None:
    retries = {"autoretry_for": (OSError,), "retry_backoff": 2}
    charge = app.task(name="charge", rate_limit="10/m", time_limit=30, queue="pay", expires=60, **retries)(charged)
    options = charge.native.declared
    assert (options["rate"], options["rate_key"], options["timeout"]) == ("10/60s", "charge", 30.0)
    assert (options["queue"], options["expires_in"], options["retry"].retries) == ("pay", 60.0, 3)
    assert charge.definition.place.name == "PROCESS"


@pytest.mark.parametrize(
    ("options", "field", "remedy"),
    [
        ({"soft_time_limit": 5}, "soft_time_limit", "time_limit="),
        ({"base": object}, "base", "functions"),
        ({"max_retries": None}, "max_retries", "Snooze"),
        ({"max_retries": 5000}, "max_retries", "1000"),
        ({"acks_late": False}, "acks_late", "at_most_once"),
        ({"retry_kwargs": {"x": 1}}, "retry_kwargs.x", "max_retries"),
        ({"autoretry_for": OSError}, "autoretry_for", "(OSError,)"),
        ({"rate_limit": "often"}, "rate_limit", "100/m"),
        ({"rate_limit": "0.5/s"}, "rate_limit", "100/m"),
        ({"serializer": "pickle"}, "serializer", "JSON"),
        ({"retries": 3}, "retries", "max_retries="),
        ({"colour": 1}, "colour", "one of"),
    ],
)
def test_a_decorator_that_is_refused(app: Celery, options: dict[str, Any], field: str, remedy: str) -> None:
    def task(x: int) -> None: ...

    found, advice = refused(lambda: app.task(**options)(task))
    assert (found, remedy in (advice or "")) == (field, True)
    assert (app.tasks, dict(app.jobs.tasks)) == ({}, {}), "nothing is left behind"


def test_rates() -> None:
    assert [read_rate(rate) for rate in ("5/s", "100/m", "7/h", 3, "2")] == [
        "5/1s",
        "100/60s",
        "7/3600s",
        "3/1s",
        "2/1s",
    ]


def test_functions_that_cannot_be_tasks(app: Celery) -> None:
    async def later() -> None: ...
    def many(*numbers: int) -> None: ...
    def bound() -> None: ...
    def taken(from_parents: int) -> None: ...

    assert refused(lambda: app.task(later))[1] == "use @jobs.task"
    assert "by name" in (refused(lambda: app.task(many))[1] or "")
    assert refused(lambda: app.task(bind=True)(bound))[0] == "bind"
    assert refused(lambda: app.task(taken))[1] == "rename it"
    assert "@app.task" in (refused(lambda: shared_task(time_limit=1)(bound))[1] or "")


def test_what_celery_has_and_duetime_has_not(app: Celery) -> None:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    for what in (lambda: add.update_state, lambda: add.s(1).link, lambda: app.control, lambda: add.apply):
        with pytest.raises(AttributeError, match=r": (use|set|call)"):
            what()
    with pytest.raises(ImportError, match=r"duetime\.Cancel"):
        from duetime.celery import Ignore  # noqa: F401
    assert "DUETIME_DATABASE_URL" in (refused(lambda: Celery("x", duetime.App(), broker="redis://"))[1] or "")
    assert "duetime.App()" in (refused(lambda: Celery("x"))[1] or "")
    assert refused(lambda: setattr(app.conf, "task_routes", {}))[1] == "give queue= to the decorators"
    assert refused(lambda: app.conf.update(timezone="Europe/Berlin", task_routes={}))[0] == "conf.task_routes"
    assert app.conf.timezone == "UTC", "a refused update changes nothing"
    where, advice = refused(lambda: app.conf.update(task_routes={}, broker_url="", task_serializer="pickle"))
    assert where == "conf" and all(f"{name}: " in (advice or "") for name in ("task_routes", "broker_url"))
    assert "it is always 'json'" in (advice or "")
    assert "related_name=None" in (refused(lambda: Celery("x", duetime.App(), include=["shop.orders"]))[1] or "")
    app.conf.update(task_serializer="json", task_acks_late=True)  # what duetime does anyway
    assert refused(lambda: add.delay(1))[0] == "args"
    assert refused(lambda: add.delay("one", 2))[0] == "args.x"
    assert refused(lambda: chain())[0] == "tasks"
    assert refused(lambda: group(1, 2))[0] == "tasks"
    assert refused(lambda: chord([add.s(1, 2)])())[0] == "body"
    with pytest.raises(NotFound, match="it has"):
        app.send_task("missing")


def test_a_configuration_from_an_object(app: Celery) -> None:
    app.config_from_object({"CELERY_TIMEZONE": "Asia/Tokyo", "DEBUG": True}, namespace="CELERY")
    assert app.conf.timezone == "Asia/Tokyo"
    given = {"CELERY_BROKER_URL": "redis://", "CELERY_TIMEZONE": "UTC"}
    assert refused(lambda: app.config_from_object(given, namespace="CELERY"))[0] == "conf.broker_url"


def test_shared_tasks_join_the_app_that_comes_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetime.celery.current._last", [])
    monkeypatch.setattr("duetime.celery.app._waiting", [])

    @shared_task(name="early")
    def early(x: int) -> int:
        return x

    assert "first" in (refused(lambda: early.delay(1))[1] or "")
    app = Celery("late", duetime.App())
    assert (early.name, early(3), list(app.tasks)) == ("early", 3, ["early"])


CRONTABS: list[dict[str, Any]] = [
    {},
    {"minute": 0},
    {"minute": "*/15", "hour": "9-17", "day_of_week": "mon-fri"},
    {"minute": 0, "hour": "*/3,8-17"},
    {"minute": "0", "hour": "0", "day_of_week": "thu-sun"},
    {"minute": [5, 35], "hour": 2, "day_of_month": "1-7", "day_of_week": "mon"},
    {"minute": 0, "hour": 0, "day_of_month": "13", "day_of_week": "fri"},
    {"minute": 30, "hour": 4, "day_of_month": "*/10", "month_of_year": "*/2"},
    {"minute": 0, "hour": 12, "day_of_week": "*/2"},
    {"minute": 0, "hour": 22, "day_of_week": 0, "month_of_year": "1,3"},
    {"minute": "10-50/20", "hour": "22-2"},
]


@pytest.mark.parametrize("given", CRONTABS, ids=str)
def test_a_crontab_fires_when_celerys_does(given: dict[str, Any]) -> None:
    theirs = celerys_crontab(**given)
    for each in (theirs, crontab(**given)):
        (entry,), left_out = read_beat({"e": {"task": "t", "schedule": each}}, "UTC")
        assert left_out == []
        day_match = entry.options.get("day_match", "either")
        found = preview(entry.options["cron"], tz="UTC", day_match=day_match, start=START, count=12)
        assert [fire.utc for fire in found.fires] == _fires_of(theirs, 12)


def _fires_of(theirs: Any, count: int) -> list[datetime]:
    """By the sets that Celery compares a moment with."""
    found: list[datetime] = []
    day = START.replace(hour=0, minute=0)
    while len(found) < count:
        if (
            day.month in theirs.month_of_year
            and day.day in theirs.day_of_month
            and day.isoweekday() % 7 in theirs.day_of_week
        ):
            times = [day.replace(hour=h, minute=m) for h in sorted(theirs.hour) for m in sorted(theirs.minute)]
            found += [each for each in times if each >= START]
        day += timedelta(days=1)
    return found[:count]


def test_beat_entries() -> None:
    entries = {
        "often": {"task": "t", "schedule": 30.0},
        "hourly": {"task": "t", "schedule": timedelta(hours=1), "args": (1,), "kwargs": {"y": 2}},
        "relative": {"task": "t", "schedule": schedule(60, relative=True), "options": {"queue": "q", "expires": 10}},
        "unnamed": {"task": "other", "schedule": 1, "args": (1,)},
        "wrong": {"task": "t", "schedule": "soon"},
        "eta": {"task": "t", "schedule": 5, "options": {"countdown": 5}},
        "nothing": {"task": "t"},
    }
    found, left_out = read_beat(entries, "Europe/Berlin", {"t": ["x", "y"]}.get)
    assert [each.name for each in left_out] == ["unnamed", "wrong", "eta", "nothing"]
    assert [each.options["every"] for each in found] == [30.0, 3600.0, 60.0]
    assert found[1].args == {"x": 1, "y": 2}
    assert (found[2].options["queue"], found[2].options["expires_in"], len(found[2].notes)) == ("q", 10.0, 1)
    assert {each.options["key"] for each in found} == {"beat:often", "beat:hourly", "beat:relative"}
