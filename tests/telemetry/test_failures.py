"""What a worker tells of an attempt: a record in its log if it failed, and calls of hooks, wherever the attempt ran."""

import ast
import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

import duetime
from duetime import App, FailedAttempt, FailureClass, InvalidInput, RetryPolicy, RunState, SucceededAttempt
from duetime.cli.output import set_up_logging
from duetime.clock import monotonic
from duetime.errors import StoreUnavailable, reason_of
from duetime.model.access import Role
from duetime.worker import hooks
from duetime.worker import worker as worker_module
from duetime.worker.heartbeat import Heartbeat
from duetime.worker.session import Session
from tests.support import tasks
from tests.support.receiver import Receiver, receiving
from tests.support.served import Served, serving
from tests.support.targeting import targeting
from tests.support.waiting import eventually
from tests.support.working import ended, remote_worker, working

SECRET = "4111-1111"


@pytest.fixture(autouse=True)
def loggers_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture
async def served(app: App) -> AsyncIterator[Served]:
    async with serving(await app.store(), app.settings) as found:
        yield found


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as found:
        yield found


def add_tasks(app: App) -> None:
    quickly = RetryPolicy(retries=1, base=0.001)

    @app.task(name="in_the_loop", retry=quickly)
    async def in_the_loop(text: str) -> None:
        raise LookupError("no such card")

    @app.task(name="in_a_thread", retry=quickly)
    def in_a_thread(text: str) -> None:
        raise LookupError("no such card")

    app.task(name="in_a_process", retry=quickly, process=True)(tasks.fail_without_words)


PLACES = {"in_the_loop": "in_the_loop", "in_a_thread": "in_a_thread", "in_a_process": "fail_without_words"}


def told(error_output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in error_output.splitlines() if line.startswith("{")]
    return [line for line in lines if line["level"] == "error" and line["logger"] == "duetime.worker.attempts"]


@pytest.mark.parametrize("remote", [False, True], ids=["beside the store", "over HTTP"])
@pytest.mark.parametrize("task", PLACES)
async def test_every_failed_attempt_is_logged_with_its_traceback(
    app: App, served: Served, task: str, remote: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    add_tasks(app)
    set_up_logging("info", "json")
    receipt = await app.submit(task, {"text": SECRET})
    if remote:
        async with remote_worker(app, served.url, await served.key(Role.WORKER)):
            run = await ended(app, receipt)
    else:
        async with working(app):
            run = await ended(app, receipt)
    assert run.state is RunState.FAILED
    output = capsys.readouterr().err
    first, second = told(output)
    for number, line in enumerate((first, second), 1):
        ids = {"job_id": receipt.job_id, "run_id": receipt.run_id, "attempt": number, "task": task}
        assert {name: line[name] for name in ids} == ids
        assert (line["queue"], line["failure"]) == ("default", "error")
        assert line.get("tenant_id") == (None if remote else 1), "a remote worker's key says which tenant it is"
        assert f"in {PLACES[task]}" in line["traceback"]
        assert line["traceback"].endswith("LookupError: no such card\n")
        assert line["message"].endswith(": LookupError: no such card")
    assert (first["retried"], second["retried"], second["retry_in"]) == (True, False, None)
    assert first["message"].startswith(f"{task} failed, retrying in 0.0 s")
    assert second["message"].startswith(f"{task} failed, not retried")
    assert SECRET not in output


async def test_for_people(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    add_tasks(app)
    set_up_logging("info", "text")
    async with working(app):
        receipt = await app.submit("in_the_loop", {"text": SECRET}, retries=0)
        await ended(app, receipt)
    output = capsys.readouterr().err
    assert f"not retried: LookupError: no such card  ({receipt.run_id}, attempt 1)\n  Traceback" in output
    assert SECRET not in output


async def test_a_timeout_is_logged_and_what_is_no_failure_is_not(app: App, capsys: pytest.CaptureFixture[str]) -> None:
    @app.task(name="slow", retries=0, timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(60)

    @app.task(name="later")
    async def later(ctx: duetime.Context) -> None:
        if ctx.last_checkpoint is None:
            await ctx.checkpoint(1)
            raise duetime.Snooze("1ms")
        raise duetime.Cancel("not wanted any more")

    set_up_logging("info", "json")
    async with working(app):
        for name in ("later", "slow"):
            await ended(app, await app.submit(name))
    [line] = told(capsys.readouterr().err)
    assert (line["task"], line["failure"], line["retried"]) == ("slow", "timeout", False)
    assert "traceback" not in line


async def test_a_failed_target_is_logged_without_what_it_answered(
    database_url: str, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.answers = [(500, {}, SECRET.encode())]
    async with targeting(database_url) as targets:
        set_up_logging("info", "json")
        run = await targets.ended(target={"type": "http", "url": receiver.url, "body": {"card": SECRET}})
    assert SECRET in run["error"]
    output = capsys.readouterr().err
    [line] = told(output)
    assert (line["run_id"], line["failure"], line["retried"]) == (run["run_id"], "target_failed", False)
    assert "not retried: it answered 500" in line["message"]
    assert SECRET not in output


@pytest.mark.parametrize("remote", [False, True], ids=["beside the store", "over HTTP"])
async def test_hooks_get_each_failed_attempt_and_its_exception(app: App, served: Served, remote: bool) -> None:
    add_tasks(app)
    retried: list[FailedAttempt] = []
    failed: list[FailedAttempt] = []
    of_one: list[FailedAttempt] = []
    app.on_failure(failed.append)  # a plain function: it is called in a thread
    app.tasks["in_a_thread"].on_failure(of_one.append)

    @app.on_retry
    async def log_stall(attempt: FailedAttempt) -> None:
        retried.append(attempt)

    key = await served.key(Role.WORKER)
    async with remote_worker(app, served.url, key) if remote else working(app):
        receipts = {task: await app.submit(task, {"text": SECRET}) for task in PLACES}
        for receipt in receipts.values():
            await ended(app, receipt)
    assert (len(retried), len(failed), [each.task for each in of_one]) == (3, 3, ["in_a_thread"])
    for task, receipt in receipts.items():
        [first], [last] = ([each for each in found if each.task == task] for found in (retried, failed))
        assert (first.attempt, first.retried, last.attempt, last.retried) == (1, True, 2, False)
        assert isinstance(first.retry_in, timedelta)
        assert last.retry_in is None
        assert (last.job_id, last.run_id, last.queue) == (receipt.job_id, receipt.run_id, "default")
        assert (last.tenant_id, last.args) == (0 if remote else 1, {"text": SECRET})
        assert SECRET not in repr(last)
        assert (last.failure, last.message) == (FailureClass.ERROR, "LookupError: no such card")
        assert isinstance(last.error, LookupError) is (task != "in_a_process")
        assert last.traceback is not None
        assert PLACES[task] in last.traceback


async def test_a_hook_that_fails_or_hangs_harms_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(hooks, "HOOK_TIMEOUT", 0.05)
    monkeypatch.setattr(hooks, "AT_ONCE", 2)
    freed = threading.Event()
    add_tasks(app)
    seen: list[str] = []

    @app.on_failure
    async def broken(failed: FailedAttempt) -> None:
        raise RuntimeError("the tracker is away")

    @app.on_failure
    async def stuck(failed: FailedAttempt) -> None:
        await asyncio.Event().wait()

    @app.on_failure
    def blocked(failed: FailedAttempt) -> None:
        freed.wait(60)

    @app.on_failure
    async def good(failed: FailedAttempt) -> None:
        seen.append(failed.run_id)

    async with working(app):
        receipts = [await app.submit("in_the_loop", {"text": "x"}, retries=0) for _ in range(10)]
        for receipt in receipts:
            assert (await ended(app, receipt)).state is RunState.FAILED
        await eventually(lambda: len(seen) == 10)
    freed.set()
    assert set(seen) == {receipt.run_id for receipt in receipts}
    assert "the on_failure hook" in caplog.text
    assert "blocked failed: TimeoutError" in caplog.text
    assert "broken failed: the tracker is away" in caplog.text
    assert "stuck failed: TimeoutError" in caplog.text


def test_a_hook_is_a_function(app: App) -> None:
    for kind in ("on_success", "on_retry", "on_failure"):
        with pytest.raises(InvalidInput, match=rf"^{kind}: 'x' is not a function"):
            getattr(app, kind)("x")


class Count(msgspec.Struct):
    number: int


async def test_hooks_get_each_success_and_its_result(app: App) -> None:
    everything: list[Any] = []
    counts: list[int] = []
    app.on_success(everything.append)
    app.on_failure(everything.append)

    @app.task(name="count")
    async def count(to: int) -> Count:
        return Count(to)

    @app.task(name="nothing")
    def nothing() -> None: ...

    @app.task(name="cancelled")
    async def cancelled() -> None:
        raise duetime.Cancel("not wanted any more")

    app.task(name="in_a_process", process=True)(tasks.square)

    @count.on_success
    async def counted(attempt: SucceededAttempt[Count]) -> None:
        counts.append(attempt.result.number)

    async with working(app):
        for call in (count.bind(to=7), nothing.bind(), cancelled.bind(), app.tasks["in_a_process"].bind(number=4)):
            await ended(app, await app.submit(call))
    found = {each.task: each for each in everything}
    assert (len(everything), set(found)) == (3, {"count", "nothing", "in_a_process"})
    assert (found["count"].result, found["nothing"].result, found["in_a_process"].result) == (Count(7), None, 16)
    assert (counts, found["count"].args) == ([7], {"to": 7})


async def test_no_run_is_claimed_while_too_many_calls_of_hooks_wait(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "AT_ONCE", 1)
    monkeypatch.setattr(worker_module, "MOST_WAITING", 1)
    freed, seen, started = asyncio.Event(), [], 0

    @app.task(name="quick", process=False, queue="one")
    async def quick(number: int) -> None:
        nonlocal started
        started += 1

    @app.on_success
    async def slow(attempt: SucceededAttempt[None]) -> None:
        await freed.wait()
        seen.append(attempt.args["number"])

    async with working(app, slots=1):
        for number in range(6):
            receipt = await quick.submit(number=number)
            if number < 3:
                await ended(app, receipt)
        await asyncio.sleep(0.3)
        assert started == 3, "one is with the hook, and two wait: more than one"
        freed.set()
        await eventually(lambda: sorted(seen) == list(range(6)))


# Why, in words.


async def test_a_lease_that_cannot_be_renewed_says_why(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the exception is: without an answer, and with one that has no text."""

    class Away:
        def __init__(self, error: Exception | None) -> None:
            self._error = error

        def companion(self) -> "Away":
            return self

        async def open(self) -> None: ...

        async def close(self) -> None: ...

        async def renew(self, *_: object) -> None:
            if self._error is not None:
                raise self._error
            await asyncio.Event().wait()

    for error in (None, StoreUnavailable("")):
        lost = asyncio.Event()
        heartbeat = Heartbeat(
            Away(error),  # type: ignore[arg-type]
            Session(),
            lease=timedelta(seconds=1.5),
            interval=timedelta(seconds=0.1),
            registered_at=monotonic(),
            renewed=lambda _: None,
            lost=lambda _, lost=lost: lost.set(),  # type: ignore[misc]
            in_thread=False,
        )
        heartbeat.start()
        await asyncio.wait_for(lost.wait(), 20)
        heartbeat.stop()
        await heartbeat.stopped()
    reasons = {record.getMessage() for record in caplog.records if "could not be renewed: " in record.getMessage()}
    assert reasons == {
        "the lease could not be renewed: no answer within 1.0 s",
        "the lease could not be renewed: StoreUnavailable",
    }


def test_the_reason_of_an_exception_is_never_empty() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert [reason_of(error) for error in (TimeoutError(), ValueError("no"), ValueError(" "), Mute())] == [
        "TimeoutError",
        "no",
        "ValueError",
        "Mute",
    ]


def test_no_line_of_the_log_shows_an_exception_by_its_text_alone() -> None:
    found = []
    for path in Path(duetime.__file__).parent.rglob("*.py"):
        for handler in ast.walk(ast.parse(path.read_text())):
            if isinstance(handler, ast.ExceptHandler) and handler.name is not None:
                found += [f"{path}:{call.lineno}" for call in ast.walk(handler) if _shows(call, handler.name)]
    assert found == []


def _shows(call: ast.AST, name: str) -> bool:
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr not in ("debug", "info", "warning", "error") or not isinstance(call.args[0], ast.Constant):
        return False
    said = str(call.args[0].value)
    bare = [arg for arg in call.args[1:] if isinstance(arg, ast.Name | ast.BoolOp) and name in ast.unparse(arg)]
    return bool(bare) and "%r" not in said
