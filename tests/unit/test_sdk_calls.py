"""Tasks, configured tasks and calls: what they accept, what they become, and what a mistake is told."""

import asyncio
import gc
import inspect
import logging
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from starlette.background import BackgroundTask

import duetime
from duetime import App, InvalidInput, NotFound, RetryPolicy
from duetime.ids import new_id
from duetime.model.schedule import make_cron
from duetime.sdk.blocking import SyncApp
from duetime.sdk.order import Order
from duetime.spec.resolved import NOTHING_GIVEN, merged, resolve
from duetime.testing import harness, sync_harness


@pytest.fixture
def app() -> App:
    return App(database_url="postgresql://nowhere.invalid/none")


@pytest.fixture
def send(app: App) -> Any:
    @app.task(name="send", retries=2, queue="mail")
    async def send(to: str, copies: int = 1) -> int:
        return copies

    return send


# Arguments.


def test_arguments_are_bound_by_position_and_by_name(send: Any) -> None:
    assert send.bind("a", 2).args == send.bind(to="a", copies=2).args == send.bind("a", copies=2).args
    assert send.bind(to="a") == send.bind("a") != send.bind("b"), "a call is a value"
    assert repr(send.bind("a", copies=2)) == "send(to='a', copies=2)"
    assert send.bind("a").bind().args == {"to": "a"}


@pytest.mark.parametrize(
    ("bind", "words"),
    [
        (lambda send: send.bind(), "missing a required argument: 'to'"),
        (lambda send: send.bind("a", 1, 2), "too many positional arguments"),
        (lambda send: send.bind("a", to="b"), "multiple values for argument 'to'"),
        (lambda send: send.bind(tw="a"), "missing a required argument"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_where_they_are_bound(
    send: Any, bind: Callable[[Any], Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words) as refused:
        bind(send)
    assert refused.value.field == "args"


async def test_parameters_may_have_the_names_of_options(app: App) -> None:
    @app.task
    async def odd(args: int, self: str, queue: str, name: str, key: str, run_in: str, **options: int) -> str:
        return f"{self} {args} {queue} {name} {key} {run_in} {options}"

    given: dict[str, Any] = {"self": "s", "args": 1, "queue": "q", "name": "n", "key": "k", "run_in": "r", "every": 5}
    async with harness(app) as jobs:
        receipt = await odd.options(queue="slow", name="Odd").submit(**given)
        assert jobs.assert_submitted(odd.bind(**given), queue="slow", name="Odd").args == given
        await jobs.run_due()
        assert await receipt.result() == "s 1 q n k r {'every': 5}"


async def test_a_plain_call_still_runs_the_function(send: Any) -> None:
    assert await send("a", copies=3) == 3
    assert await send.options(queue="slow")("a") == 1


def test_what_is_not_a_function_of_its_own_is_refused(app: App) -> None:
    with pytest.raises(InvalidInput, match="the context 'ctx' is not the first parameter"):

        @app.task
        async def late(to: str, ctx: duetime.Context) -> None: ...

    class Jobs:
        with pytest.raises(InvalidInput, match="is a method"):

            @app.task
            async def method(self) -> None: ...

        @staticmethod
        @app.task(name="static")
        async def static(to: str) -> str:
            return to

    assert Jobs.static.bind("a").args == {"to": "a"}


# Options.


async def test_the_last_value_of_an_option_counts(send: Any) -> None:
    urgent = send.options(priority="HIGH", queue="urgent")
    async with harness(send.app) as jobs:
        await urgent.submit("a")
        await urgent.options(queue="later").bind("b").submit(queue="last", tags=["x"])
        await send.submit("c")
        first, second, third = jobs.submitted
    assert (first.queue, first.priority, first.given.options.retry.retries) == ("urgent", "HIGH", 2)
    assert (second.queue, second.priority, second.given.options.tags) == ("last", "HIGH", ("x",))
    assert (third.queue, third.priority) == ("mail", "MEDIUM"), "the task itself is as it was"


def test_a_configured_task_keeps_its_options_when_the_caller_changes_the_list(send: Any) -> None:
    tags = ["a"]
    tagged = send.options(tags=tags)
    tags.append("b")
    assert tagged.given["tags"] == tagged.options(queue="q").given["tags"] == ["a"]
    assert tagged.resolved.options.tags == tagged.options(queue="q").resolved.options.tags == ("a",)


async def test_a_configured_task_in_words_is_resolved_on_the_day_it_is_submitted(send: Any) -> None:
    tomorrow = send.options(when="tomorrow at 8", tz="Europe/Berlin")
    async with harness(send.app) as jobs:
        first = await tomorrow.submit("a")
        jobs.clock.advance(days=1)
        second = await tomorrow.submit("a")
    assert first.next_run is not None and second.next_run == first.next_run + timedelta(days=1)


async def test_a_time_replaces_the_words_of_a_configured_task(send: Any) -> None:
    tomorrow = send.options(when="tomorrow at 8")
    with pytest.raises(InvalidInput, match=r"connection: builtins\.object is not a supported connection"):
        await tomorrow.bind("a").submit(run_at="2030-01-01T00:00:00Z", connection=object())
    with pytest.raises(InvalidInput, match="'tomorrow at 8' depends on the current day"):
        await tomorrow.bind("a").submit(run_at=None, connection=object())


def test_a_task_and_a_configured_task_are_resolved_once(send: Any) -> None:
    urgent = send.options(priority="HIGH")
    assert urgent.resolved is not None and urgent.resolved is urgent.bind("a").task.resolved
    assert send.resolved is send.base is urgent.base


_JOB = new_id()
OPTIONS: list[dict[str, Any]] = [
    {},
    {"queue": "a", "priority": "HIGH"},
    {"run_in": "10m"},
    {"run_at": "2030-01-01T00:00:00Z"},
    {"retries": 5},
    {"retry": RetryPolicy(retries=7, base=1.0, give_up_on=(KeyError,))},
    {"retry": {"retries": 7, "base": 1.0, "give_up_on": ["KeyError"]}},
    {"delivery": "at_most_once"},
    {"delivery": "at_least_once"},
    {"timeout": "5s", "tags": ["a"], "name": "n", "key": "k"},
    {"timeout": None, "tags": ["b"]},
    {"concurrency_key": "c", "concurrency": 3},
    {"concurrency_key": "d"},
    {"rate_key": "r", "rate": "5/m"},
]


@pytest.mark.parametrize("later", OPTIONS, ids=str)
@pytest.mark.parametrize("earlier", OPTIONS, ids=str)
def test_merged_options_mean_what_they_mean_one_after_the_other(earlier: dict[str, Any], later: dict[str, Any]) -> None:
    """A server gets them merged; beside a store, a task has resolved its own before."""

    def outcome(resolved: Callable[[], Any]) -> Any:
        try:
            return resolved().job(1, "send", b"{}", job_id=_JOB)
        except InvalidInput as error:
            return str(error)

    one_by_one = outcome(lambda: resolve(resolve(NOTHING_GIVEN, earlier), later))
    assert outcome(lambda: resolve(NOTHING_GIVEN, merged(earlier, later))) == one_by_one


def test_an_order_carries_all_options_as_they_were_given(send: Any) -> None:
    call = send.options(run_in="10m", tags=["a"]).bind("x")
    order = Order(call, b"{}", {"run_at": "2030-01-01T00:00:00Z", "timeout": None})
    given = {"retries": 2, "queue": "mail", "tags": ["a"], "run_at": "2030-01-01T00:00:00Z"}
    assert order.given == given, "another schedule replaces the first one; None is not given"


# Mistakes.


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        (
            lambda send: send.submit(to="x", run_in="10m"),
            "args.run_in: `run_in` is an option, not a parameter of send (send.options(run_in=…).submit(to=…))",
        ),
        (
            lambda send: send.options(to="x"),
            "to: `to` is a parameter of send, not an option (send.bind(to=…), or send.options(…).submit(to=…))",
        ),
        (lambda send: send.options(cron="* * * * *"), "cron: `cron` is not an option here (it goes with `schedule`)"),
        (lambda send: send.options(run_inn="10m"), "run_inn: is not an option (did you mean run_in?)"),
        (
            lambda send: send.options(priority="URGENT"),
            "priority: 'URGENT' is not a valid value (one of HIGH, LOW, MEDIUM)",
        ),
        (lambda send: send.app.submit(send), "args: the arguments do not match send"),
        (lambda send: send.app.submit(send, to=1), "to: `to` is a parameter of send, not an option"),
        (lambda send: send.app.submit(send.bind("a"), {"to": "b"}), "args: arguments are bound to a task"),
        (lambda send: send.schedule(every="1h"), "args: the arguments do not match send"),
    ],
)
def test_a_mistake_is_told_with_the_corrected_line(send: Any, mistake: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        mistake(send)
    assert str(refused.value).startswith(told)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("delay", "await send.submit(…)"),
        ("apply_async", "await send.options(run_in=…).submit(…)"),
        ("defer", "await send.submit(…)"),
        ("submit_many", "await app.submit_many([send.bind(…), …])"),
    ],
)
def test_the_names_of_other_libraries_are_hinted_at(send: Any, name: str, hint: str) -> None:
    with pytest.raises(AttributeError, match="has no attribute") as refused:
        getattr(send, name)
    assert hint in str(refused.value)
    assert not hasattr(send, "anything_else")


async def test_a_task_of_another_app_is_refused(send: Any) -> None:
    other = App(database_url="postgresql://nowhere.invalid/none")
    with pytest.raises(NotFound, match="belongs to another app"):
        await other.submit(send.bind("a"))
    with pytest.raises(NotFound, match="belongs to another app"):
        await other.submit_many([send.bind("a")])
    with pytest.raises(NotFound, match="belongs to another app"):
        await other.submit_graph(duetime.GraphPlan().add("a", send.bind("a")))


async def test_a_connection_is_never_left_out_silently(send: Any) -> None:
    within = send.options(connection=object()).bind("a")
    for submit in (
        lambda: send.app.submit_many([send.bind("a"), within]),
        lambda: send.app.submit_many([send.bind("a")], connection=object()),
        lambda: within.schedule(every="1h"),
        lambda: send.app.submit_graph(duetime.GraphPlan().add("a", within)),
    ):
        with pytest.raises(InvalidInput, match="connection: only `submit` accepts a connection"):
            await submit()


async def test_the_dependency_of_a_configured_task_is_not_lost_in_a_graph(send: Any) -> None:
    async with harness(send.app):
        first = await send.submit("a")
        plan = duetime.GraphPlan().add("b", send.options(depends_on=[first]).bind("b"))
        with pytest.raises(InvalidInput, match=r"nodes\.b\.depends_on: a graph node can only depend on nodes"):
            await send.app.submit_graph(plan)


def test_the_connection_of_a_task_is_used_on_the_callers_thread(app: App) -> None:
    @app.task
    def tidy() -> None: ...

    elsewhere = pytest.raises(InvalidInput, match="this is a connection to ")
    with closing(sqlite3.connect(":memory:")) as connection, elsewhere:  # it refuses other threads
        app.sync.submit(tidy.options(connection=connection))


def test_threads_share_one_app_for_code_that_is_not_async(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(SyncApp):
        def __init__(self, *given: Any) -> None:
            time.sleep(0.02)  # so that two threads meet here
            super().__init__(*given)

    monkeypatch.setattr("duetime.sdk.app.SyncApp", Slow)
    app = App(database_url="postgresql://nowhere.invalid/none")
    with ThreadPoolExecutor(2) as threads:
        assert len({id(sync) for sync in threads.map(lambda _: app.sync, range(2))}) == 1


# What newcomers write.


async def test_a_zone_may_be_an_object(app: App) -> None:
    @app.task(name="tidy")
    async def tidy() -> None: ...

    async with harness(app):
        for zone, name in ((ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"), (UTC, "UTC")):
            job = await app.job(await tidy.schedule(cron="0 9 * * *", tz=zone))
            assert job.schedule == make_cron("0 9 * * *", name)
            assert duetime.preview("0 9 * * *", tz=zone).sentence.endswith(name)
        receipt = await tidy.options(run_in="2d", tz=ZoneInfo("Asia/Tokyo")).submit()
        assert receipt.next_run is not None


def test_a_task_is_scheduled_from_blocking_code(app: App, send: Any) -> None:
    @app.task(name="tidy")
    async def tidy() -> None: ...

    with sync_harness(app, start="2026-03-01T00:00:00Z") as jobs:
        assert tidy.sync.schedule(every="1h").next_run == jobs.clock.now() + timedelta(hours=1)
        assert send.sync.bind(to="x").schedule(every="1d").created
        with pytest.raises(InvalidInput, match="missing a required argument: 'to'"):
            send.sync.schedule(every="1h")
        with pytest.raises(InvalidInput, match="not advanced by a negative time"):
            jobs.advance(minutes=-1)


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (lambda app, send: app.submit(send, "x"), "app.submit(send.bind(to=…))"),
        (lambda app, send: app.submit_many(send.bind("x")), "submit_many([send.bind(to=…), …])"),
        (lambda app, send: app.task(retires=3)(lambda: None), "did you mean retries?"),
        (lambda app, send: app.task(retry=3)(lambda: None), "retries=3"),
    ],
)
async def test_the_error_shows_what_to_write(
    app: App, send: Any, mistake: Callable[[App, Any], Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=re.escape(words)):
        await mistake(app, send)


@pytest.mark.parametrize("app", ["duetime.App()", "duetime.celery.Celery('shop', duetime.App())"])
def test_a_script_names_its_tasks_as_its_importers_do(tmp_path: Path, app: str) -> None:
    (tmp_path / "shop").mkdir()
    text = f"import duetime.celery\napp = {app}\n\n@app.task\ndef charge() -> None: ...\n\nprint(charge.name)\n"
    (tmp_path / "jobs.py").write_text(text)
    (tmp_path / "shop" / "__main__.py").write_text(text)
    (tmp_path / "shop" / "jobs.py").write_text(text)

    def named(*arguments: str) -> str:
        return subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout.strip()

    assert named("jobs.py") == named("-m", "jobs") == named("-c", "import jobs") == "jobs.charge"
    assert named("-m", "shop") == "shop.charge"
    assert named("-m", "shop.jobs") == named("-c", "import shop.jobs") == "shop.jobs.charge"
    assert named("-c", text) == "charge"


# What is never awaited.


@pytest.mark.parametrize(
    ("forget", "remedy"),
    [
        (lambda send: send.submit(to="x"), "send.sync.submit"),
        (lambda send: send.options(key="k").submit(to="x"), "send.sync.submit"),
        (lambda send: send.bind(to="x").submit(run_in="10m"), "send.sync.submit"),
        (lambda send: send.bind(to="x").schedule(every="1h"), "send.bind(…).sync.schedule"),
        (lambda send: send.app.submit_many([send.bind(to="x")]), "app.sync.submit_many"),
    ],
)
def test_a_submission_that_is_never_awaited_logs_an_error(
    send: Any, forget: Callable[[Any], object], remedy: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        forget(send)
        gc.collect()
    [record] = caplog.records
    assert "nothing was stored" in record.message and f"use `{remedy}`" in record.message


async def test_a_submission_is_a_coroutine_to_asyncio(send: Any, caplog: pytest.LogCaptureFixture) -> None:
    async with harness(send.app) as jobs:
        await asyncio.gather(send.submit("a"), asyncio.wait_for(send.submit("b"), 5))
        await asyncio.create_task(send.submit("c"))
        async with asyncio.TaskGroup() as group:
            group.create_task(send.submit("d"))
        assert sorted(item.args["to"] for item in jobs.submitted) == ["a", "b", "c", "d"]
        once = send.submit("e")
        await once
        with pytest.raises(RuntimeError, match="cannot reuse"):
            await once
        send.submit("f").close()
        cancelled = asyncio.create_task(send.submit("g"))
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert len(jobs.submitted) == 5
    gc.collect()
    assert not caplog.records


async def test_frameworks_await_a_submission(send: Any) -> None:
    call = send.bind("a")
    for function in (send.submit, send.schedule, call.submit, call.schedule, send.app.submit, send.app.submit_many):
        assert (inspect if sys.version_info >= (3, 12) else asyncio).iscoroutinefunction(function)
    async with harness(send.app) as jobs:
        await BackgroundTask(send.submit, to="a")()  # as FastAPI's
        assert len(jobs.submitted) == 1


def test_a_submission_may_be_made_before_a_loop_runs(send: Any) -> None:
    async def main(pending: Any) -> str:
        async with harness(send.app):
            return str((await pending).job_id)

    assert asyncio.run(main(send.submit("a"))).startswith("job_")


# Results.


async def test_a_receipt_gives_the_result(app: App) -> None:
    @app.task(retries=0)
    async def divide(by: int) -> float:
        return 1 / by

    async with harness(app) as jobs:
        half, none, never = [await divide.submit(by) for by in (2, 0, 1)]
        await app.cancel(never)
        await jobs.run_due()
        assert await half.result("1s") == 0.5
        with pytest.raises(duetime.RunFailed, match="ZeroDivisionError"):
            await none.result()
        with pytest.raises(duetime.RunCancelled, match="ended as CANCELLED"):
            await never.result()
        with pytest.raises(TimeoutError, match="has not ended within"):
            await (await divide.options(run_in="1h").submit(1)).result(0.01)
        receipt = await divide.bind(1).schedule(every="1h")
        assert not hasattr(receipt, "result")
        assert await asyncio.to_thread(lambda: divide.sync.submit(4).job_id)
        await jobs.run_due()
        blocking = await asyncio.to_thread(lambda: divide.bind(by=4).sync.submit(key="k"))
        await jobs.run_due()
        assert await asyncio.to_thread(blocking.result, "1s") == 0.25
        await asyncio.to_thread(app.sync.close)


async def test_equal_options_of_a_batch_are_resolved_once(send: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved = []

    def counting(*args: Any, **options: Any) -> Any:
        resolved.append(args)
        return resolve(*args, **options)

    monkeypatch.setattr("duetime.sdk.order.resolve", counting)
    async with harness(send.app) as jobs:
        receipts = await send.app.submit_many((send.bind(to=str(n)) for n in range(100)), tags=["a"], run_in="1m")
        assert [item.receipt.job_id for item in jobs.submitted] == [receipt.job_id for receipt in receipts]
        assert {item.given.options.tags for item in jobs.submitted} == {("a",)}
    assert len(resolved) == 1
