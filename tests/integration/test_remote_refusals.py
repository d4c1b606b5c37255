"""What a remote worker says of a run is more than the server takes: the work is done all the same."""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from duetime import App, Context, RetryAfter, RunState
from duetime.api.routes import workers as routes
from duetime.ids import new_id
from duetime.model import json
from duetime.model.access import Role
from duetime.model.attempt import RunNote
from duetime.worker.worker import Worker
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import ended
from tests.support.working import remote_worker as working_remotely

LOUD = 35


@pytest.fixture
def long_level() -> Iterator[str]:
    name = "X" * 30
    logging.addLevelName(LOUD, name)
    yield name
    logging.addLevelName(LOUD, f"Level {LOUD}")


@asynccontextmanager
async def remote_worker(app: App, served: Served, **settings: Any) -> AsyncIterator[Worker]:
    async with working_remotely(app, served.url, await served.key(Role.WORKER), **settings) as worker:
        yield worker


async def test_a_log_with_too_many_bytes_loses_lines(app: App, served: Served) -> None:
    @app.task
    async def talk(ctx: Context) -> str:
        for number in range(1200):
            ctx.logger.info(f"{number:04} ".ljust(1000, "."))
        return "done"

    async with remote_worker(app, served, max_log_lines=2000):
        run = await ended(app, await talk.submit())
    assert (run.state, run.value) == (RunState.SUCCEEDED, "done")
    logs = run.attempts[-1].logs
    assert logs is not None
    lines, dropped = run.attempts[-1].log_lines, json.decode(logs)["dropped"]
    assert len(lines) + dropped == 1200
    assert lines[0].startswith(f"{dropped:04} "), "the last ones are kept, in order"
    assert lines[-1].startswith("1199 ")
    assert 1024 * 1024 - 4000 < len(logs) <= 1024 * 1024


async def test_a_log_with_too_many_lines_loses_some_while_it_runs_and_at_its_end(app: App, served: Served) -> None:
    seen = asyncio.Event()

    @app.task
    async def talk(ctx: Context) -> None:
        for number in range(12_000):
            ctx.logger.info("%d", number)
        await seen.wait()

    async with remote_worker(app, served, max_log_lines=20_000):
        receipt = await talk.submit()

        async def shown() -> bool:
            return (await app.run(receipt.run_id)).logs is not None

        await eventually(shown)
        seen.set()
        run = await ended(app, receipt)
    assert run.state is RunState.SUCCEEDED
    assert run.attempts[-1].log_lines == [str(number) for number in range(2000, 12_000)]


async def test_a_level_with_a_long_name_is_cut_short(app: App, served: Served, long_level: str) -> None:
    @app.task
    async def talk(ctx: Context) -> None:
        ctx.logger.log(LOUD, "hear")

    async with remote_worker(app, served):
        for _ in range(2):
            run = await ended(app, await talk.submit())
            assert run.state is RunState.SUCCEEDED
            (line,) = json.decode(run.attempts[-1].logs or b"")["lines"]
            assert (line["level"], line["text"]) == (long_level[:20], "hear")


async def test_a_result_that_the_server_refuses_is_not_kept(app: App, served: Served) -> None:
    @app.task
    async def talk(ctx: Context) -> str:
        ctx.logger.info("all is well")
        return "x" * 100_000

    async with remote_worker(app, served, max_result=1024 * 1024):
        run = await ended(app, await talk.submit())
    assert (run.state, run.value) == (RunState.SUCCEEDED, None)
    first, second = run.attempts[-1].log_lines
    assert first == "all is well"
    assert second.startswith("the result was dropped: ")


@pytest.mark.parametrize("fails", [False, True], ids=["success", "failure"])
async def test_a_log_that_the_server_refuses_is_not_kept(
    app: App, served: Served, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(routes, "LOG_LIMIT", 1000)

    @app.task(retries=1)
    async def talk(ctx: Context) -> str:
        ctx.logger.info("x" * 1000)
        if fails and ctx.attempt == 1:
            raise RetryAfter("10ms")
        return "done"

    async with remote_worker(app, served):
        run = await ended(app, await talk.submit())
    assert (run.state, run.value, run.attempt) == (RunState.SUCCEEDED, "done", 2 if fails else 1)
    for attempt in run.attempts:
        (line,) = attempt.log_lines
        assert line.startswith("the log was dropped: ")


async def test_where_both_are_refused_the_run_has_still_succeeded(
    app: App, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "LOG_LIMIT", 1000)

    @app.task
    async def talk(ctx: Context) -> str:
        ctx.logger.info("x" * 1000)
        return "x" * 100_000

    async with remote_worker(app, served, max_result=1024 * 1024):
        run = await ended(app, await talk.submit())
    assert (run.state, run.value) == (RunState.SUCCEEDED, None)
    (line,) = run.attempts[-1].log_lines
    assert line.startswith("the log and the result were dropped: ")


async def test_more_notes_than_the_server_takes_at_once(
    app: App, served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    """In pieces that it takes; one that it refuses costs no other run what it has said."""
    told, seen = asyncio.Event(), asyncio.Event()

    @app.task
    async def talk(ctx: Context) -> None:
        await told.wait()
        ctx.progress(0.5, "half of it")
        await seen.wait()

    async with remote_worker(app, served) as worker:
        receipt = await talk.submit()
        await eventually(lambda: worker._attempts.under_way())
        notes, (running,) = worker._attempts.progress_reports, worker._attempts.under_way()
        for number in range(2500):
            message = "x" * 501 if number == 1500 else None
            notes.remember(running.session.id, RunNote(new_id(), 1, 0.1, message))
        told.set()

        async def shown() -> bool:
            return (await app.run(receipt.run_id)).progress == 0.5

        await eventually(shown)
        seen.set()
        await ended(app, receipt)
    assert sum("progress could not be stored" in line for line in caplog.messages) == 1
