"""What a task may know and say while it runs, and what is kept of its result."""

import asyncio
import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest

from duetime import App, Context, InvalidInput, Receipt, RetryPolicy, Run, RunState, SyncContext
from tests.support.lying import Lie
from tests.support.waiting import eventually
from tests.support.working import ended, working

QUICK = RetryPolicy(retries=3, base=0.01)


async def test_all_attempts_of_a_run_share_its_token_and_its_time(app: App) -> None:
    seen: list[tuple[int, str, str, datetime]] = []

    @app.task(retry=QUICK)
    async def flaky(ctx: Context) -> None:
        seen.append((ctx.attempt, ctx.token, ctx.run_id, ctx.due_at))
        if ctx.attempt < 3:
            raise ConnectionError

    async with working(app):
        receipt = await flaky.submit()
        run = await ended(app, receipt)
        other = await ended(app, await flaky.submit())
    assert seen[:3] == [(attempt, receipt.run_id, receipt.run_id, run.due_at) for attempt in (1, 2, 3)]
    assert seen[3][1] != receipt.run_id and other.id != run.id


async def test_a_context_knows_its_task_queue_and_job(app: App) -> None:
    @app.task
    async def who(me: Context, number: int) -> list[Any]:
        return [me.task, me.queue, me.job_id, me.lost, number, me.last_checkpoint]

    async with working(app):
        receipt = await who.options(queue="mail").submit(number=7)
        run = await ended(app, receipt)
    assert run.value == [who.name, "mail", receipt.job_id, 0, 7, None]


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_progress_shows_while_it_runs_and_is_gone_afterwards(app: App, kind: str) -> None:
    go_on = asyncio.Event()
    loop = asyncio.get_running_loop()

    @app.task(name="async")
    async def in_loop(ctx: Context) -> None:
        ctx.progress(0.25, "a quarter")
        await go_on.wait()

    @app.task(name="thread")
    def in_thread(ctx: SyncContext) -> None:
        ctx.progress(0.25, "a quarter")
        asyncio.run_coroutine_threadsafe(go_on.wait(), loop).result(20)

    async with working(app):
        receipt = await app.submit(kind)
        shown = await eventually(lambda: _with_progress(app, receipt))
        go_on.set()
        run = await ended(app, receipt)
    assert (shown.state, shown.progress, shown.message) == (RunState.RUNNING, 0.25, "a quarter")
    assert (run.state, run.progress) == (RunState.SUCCEEDED, None)


async def _with_progress(app: App, receipt: Receipt) -> Run | None:
    run = (await app.runs(receipt))[0]
    return run if run.progress is not None else None


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_the_next_attempt_starts_from_the_checkpoint(app: App, kind: str) -> None:
    @app.task(name="async", retry=QUICK)
    async def in_loop(ctx: Context) -> int:
        done = (ctx.last_checkpoint or {"done": 0})["done"]
        await ctx.checkpoint({"done": done + 1})
        if done < 2:
            raise ConnectionError
        return done

    @app.task(name="thread", retry=QUICK)
    def in_thread(ctx: SyncContext) -> int:
        done = (ctx.last_checkpoint or {"done": 0})["done"]
        ctx.checkpoint({"done": done + 1})
        if done < 2:
            raise ConnectionError
        return done

    async with working(app):
        run = await ended(app, await app.submit(kind))
    assert (run.value, run.attempt) == (2, 3)


async def test_a_checkpoint_that_cannot_be_kept_is_refused(app: App) -> None:
    @app.task(retries=0)
    async def save(ctx: Context) -> str:
        with pytest.raises(InvalidInput, match=r"^checkpoint\.when: datetime is not JSON"):
            await ctx.checkpoint({"when": datetime(2026, 1, 1, tzinfo=UTC)})
        with pytest.raises(InvalidInput, match=r"^checkpoint: .* exceed the limit of 262,144"):
            await ctx.checkpoint("x" * 262_144)
        return "refused"

    async with working(app):
        assert (await ended(app, await save.submit())).value == "refused"


@pytest.mark.parametrize("kind", ["async", "thread"])
async def test_what_a_task_logs_is_kept_with_its_attempt(app: App, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    def write(ctx: Context | SyncContext) -> None:
        ctx.logger.info("attempt %d of %s", ctx.attempt, ctx.task)
        if ctx.attempt == 1:
            ctx.logger.error("a\x00b")
            raise ConnectionError

    @app.task(name="async", retry=QUICK)
    async def in_loop(ctx: Context) -> None:
        write(ctx)

    @app.task(name="thread", retry=QUICK)
    def in_thread(ctx: SyncContext) -> None:
        write(ctx)

    async with working(app):
        run = await ended(app, await app.submit(kind))
    first, second = run.attempts
    assert first.log_lines == [f"attempt 1 of {kind}", "a␀b"]
    assert second.log_lines == [f"attempt 2 of {kind}"]
    line = json.loads(first.logs)["lines"][1]
    assert line["level"] == "ERROR"
    assert datetime.fromisoformat(line["at"]).tzinfo is not None
    assert f"duetime.task.{kind}" in {record.name for record in caplog.records}, "it goes to the process's log too"


async def test_the_log_of_an_attempt_is_bounded(app: App) -> None:
    @app.task
    async def chatty(ctx: Context) -> None:
        for number in range(100):
            ctx.logger.info("line %d", number)
        ctx.logger.info("x" * 5000)

    async with working(app, max_log_lines=10):
        run = await ended(app, await chatty.submit())
    lines = run.attempts[0].log_lines
    assert len(lines) == 10
    assert lines[:5] == [f"line {number}" for number in range(5)], "how it began"
    assert lines[-2] == "line 99" and len(lines[-1]) < 1100, "and how it ended"
    assert json.loads(run.attempts[0].logs)["dropped"] == 91


ODD = {
    "a datetime": datetime(2026, 1, 1, tzinfo=UTC),
    "an object": object(),
    "a set": {1},
    "NaN": math.nan,
    "half a character": "\ud800",
    "a number of 70 bits": 2**70,
    "bytes": b"x",
}


async def test_a_result_without_a_json_form_fails_the_attempt(app: App) -> None:
    @app.task(retries=0)
    async def give(what: str) -> Any:
        return ODD.get(what, what)

    async with working(app):
        receipts = await app.submit_many([give.bind(what=what) for name in ODD for what in (name, "a sibling")])
        runs = [await ended(app, receipt) for receipt in receipts]
    assert [run.state for run in runs] == [RunState.FAILED, RunState.SUCCEEDED] * len(ODD)
    for run in runs[::2]:
        assert run.error is not None
        assert run.error.startswith("duetime.errors.InvalidInput: result: ")


async def test_a_result_that_is_too_large_does_not_undo_the_work(app: App) -> None:
    @app.task(retries=0)
    async def give() -> str:
        return "x" * 70_000

    async with working(app):
        run = await ended(app, await give.submit())
    assert (run.state, run.value) == (RunState.SUCCEEDED, None)
    (line,) = run.attempts[0].log_lines
    assert line.startswith("the result was dropped: result: ")


async def test_every_other_result_comes_back_as_it_was(app: App) -> None:
    values: list[Any] = ["a\x00b", "", "ü☃𝄞", 0, False, -(2**63), 2**63 - 1, 1e300, [], {}, [None], {"deep": [1.5]}]

    @app.task
    async def echo(value: Any) -> Any:
        return value

    async with working(app):
        receipts = await app.submit_many([echo.bind(value=value) for value in values])
        runs = [await ended(app, receipt) for receipt in receipts]
    assert [run.arguments for run in runs] == [{"value": value} for value in values]
    assert [run.value for run in runs] == values
    assert [type(run.value) for run in runs] == [type(value) for value in values]


@pytest.mark.parametrize("how", ["async", "thread"])
async def test_an_answer_that_is_lost_costs_no_attempt(app: App, how: str) -> None:
    @app.task(name="parent")
    async def parent() -> int:
        return 7

    async def child(ctx: Context) -> list[Any]:
        await ctx.checkpoint({"begun": True})
        return [each.value for each in await ctx.parents()]

    def child_in_a_thread(ctx: SyncContext) -> list[Any]:
        ctx.checkpoint({"begun": True})
        return [each.value for each in ctx.parents()]

    task = app.task(name="child", retries=0)(child if how == "async" else child_in_a_thread)
    store = await app.store()
    lies = [Lie(store, "note"), Lie(store, "held_parents")]
    async with working(app):
        first = await parent.submit()
        run = await ended(app, await task.options(depends_on=[first]).submit())
    assert all(lie.told for lie in lies)
    assert (run.value, run.attempt, len(run.attempts)) == ([7], 1, 1)


async def test_progress_that_could_not_be_told_is_told_later(app: App) -> None:
    told = asyncio.Event()

    @app.task
    async def work(ctx: Context) -> None:
        ctx.progress(0.5, "half of it")
        await told.wait()

    lie = Lie(await app.store(), "note", happens=False)
    async with working(app):
        receipt = await work.submit()

        async def shown() -> bool:
            return (await app.runs(receipt))[0].message == "half of it"

        await eventually(shown)
        told.set()
        await ended(app, receipt)
    assert lie.told
