"""What happens to an attempt that did not succeed, and what a task may say about it."""

from collections.abc import Callable
from typing import Any

import pytest

from duetime import (
    App,
    Cancel,
    Context,
    FailureClass,
    GiveUp,
    RetryAfter,
    RetryPolicy,
    Run,
    RunState,
    Snooze,
    SyncContext,
    Task,
)
from duetime.model.attempt import AttemptState
from tests.support.working import ended, working

QUICK = RetryPolicy(retries=3, base=0.01)


class SoldOut(LookupError):
    pass


async def run_once(app: App, task: Task[..., Any], **arguments: Any) -> Run:
    async with working(app):
        return await ended(app, await task.submit(**arguments))


async def dead_letters(app: App) -> int:
    return (await (await app.store()).reads.counts()).dead_letters


async def test_a_failed_attempt_is_retried_and_all_attempts_are_kept(app: App) -> None:
    @app.task(retry=QUICK)
    async def flaky(ctx: Context) -> int:
        if ctx.attempt < 3:
            raise ConnectionError(f"no answer to attempt {ctx.attempt}")
        return ctx.attempt

    run = await run_once(app, flaky)
    assert (run.state, run.value, run.attempt, run.lost) == (RunState.SUCCEEDED, 3, 3, 0)
    assert [each.attempt for each in run.attempts] == [1, 2, 3]
    assert [each.state for each in run.attempts] == [AttemptState.FAILED, AttemptState.FAILED, AttemptState.SUCCEEDED]
    assert [each.failure for each in run.attempts] == [FailureClass.ERROR, FailureClass.ERROR, None]
    first, second, _ = (each.error for each in run.attempts)
    assert first.splitlines()[0] == "ConnectionError: no answer to attempt 1"
    assert second.splitlines()[0] == "ConnectionError: no answer to attempt 2"
    assert "in flaky" in first, "the traceback is kept"
    times = [moment for each in run.attempts for moment in (each.started_at, each.finished_at)]
    assert times == sorted(times)
    assert await dead_letters(app) == 0


async def test_spent_attempts_end_as_a_dead_letter(app: App) -> None:
    @app.task(retry=RetryPolicy(retries=2, base=0.01))
    async def hopeless() -> None:
        raise ValueError("never")

    run = await run_once(app, hopeless)
    assert (run.state, run.failure, run.attempt) == (RunState.FAILED, FailureClass.ERROR, 3)
    assert run.error.startswith("ValueError: never")
    assert len(run.attempts) == 3
    assert await dead_letters(app) == 1


async def test_a_submission_may_ask_for_fewer_retries(app: App) -> None:
    @app.task(retries=5)
    async def hopeless() -> None:
        raise ValueError("never")

    assert len((await run_once(app, hopeless.options(retries=0))).attempts) == 1


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        ({}, 4),
        ({"retry_on": (ConnectionError,)}, 1),
        ({"retry_on": (ConnectionError, SoldOut)}, 4),
        ({"retry_on": ("LookupError",)}, 4),
        ({"retry_on": (f"{__name__}.SoldOut",)}, 4),
        ({"give_up_on": (LookupError,)}, 1),
        ({"give_up_on": ("SoldOut",)}, 1),
        ({"give_up_on": ("TimeoutError",)}, 4),
    ],
    ids=str,
)
async def test_the_kind_of_error_decides(app: App, policy: dict[str, Any], attempts: int) -> None:
    @app.task(retry=RetryPolicy(retries=3, base=0.01, **policy))
    async def buy() -> None:
        raise SoldOut("the last one is gone")

    run = await run_once(app, buy)
    assert (run.state, len(run.attempts)) == (RunState.FAILED, attempts)


def on_the_loop(app: App, act: Callable[[int], Any]) -> Task[..., Any]:
    @app.task(retry=RetryPolicy(retries=3, base=3600.0))
    async def say(ctx: Context) -> Any:
        return act(ctx.attempt)

    return say


def in_a_thread(app: App, act: Callable[[int], Any]) -> Task[..., Any]:
    @app.task(retry=RetryPolicy(retries=3, base=3600.0))
    def say(ctx: SyncContext) -> Any:
        return act(ctx.attempt)

    return say


PLACES = pytest.mark.parametrize("place", [on_the_loop, in_a_thread])
WAYS = pytest.mark.parametrize("way", ["raised", "returned"])


def give(signal: Exception, way: str) -> Exception:
    if way == "raised":
        raise signal
    return signal


@PLACES
@WAYS
async def test_retry_after_replaces_the_backoff_and_spends_an_attempt(app: App, place: Any, way: str) -> None:
    task = place(app, lambda attempt: give(RetryAfter("20ms", "busy"), way) if attempt == 1 else "done")
    run = await run_once(app, task)
    assert (run.state, run.value, run.attempt) == (RunState.SUCCEEDED, "done", 2)
    assert (run.attempts[0].state, run.attempts[0].error) == (AttemptState.FAILED, "busy")


@PLACES
@WAYS
async def test_a_snooze_spends_nothing(app: App, place: Any, way: str) -> None:
    seen: list[int] = []

    def act(attempt: int) -> Any:
        seen.append(attempt)
        return give(Snooze(0.02), way) if len(seen) < 6 else "done"

    run = await run_once(app, place(app, act))
    assert (run.state, run.value, run.attempt) == (RunState.SUCCEEDED, "done", 1)
    assert seen == [1] * 6, "more often than there are retries"
    assert [each.state for each in run.attempts] == [AttemptState.SNOOZED] * 5 + [AttemptState.SUCCEEDED]


@PLACES
@WAYS
async def test_a_task_may_cancel_its_run(app: App, place: Any, way: str) -> None:
    run = await run_once(app, place(app, lambda _: give(Cancel("the order was withdrawn"), way)))
    assert (run.state, run.failure) == (RunState.CANCELLED, FailureClass.CANCELLED)
    assert (run.error, len(run.attempts)) == ("the order was withdrawn", 1)
    assert await dead_letters(app) == 0


@PLACES
@WAYS
async def test_a_task_may_give_up(app: App, place: Any, way: str) -> None:
    run = await run_once(app, place(app, lambda _: give(GiveUp("no such address"), way)))
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.GAVE_UP)
    assert (run.error, len(run.attempts)) == ("no such address", 1)
    assert await dead_letters(app) == 1


async def test_at_most_once_is_never_tried_again(app: App) -> None:
    @app.task(delivery="at_most_once")
    async def pay() -> None:
        raise ConnectionError("who knows whether it arrived")

    run = await run_once(app, pay)
    assert (run.state, len(run.attempts)) == (RunState.FAILED, 1)
    assert await dead_letters(app) == 1


async def test_no_error_text_is_too_odd_to_keep(app: App) -> None:
    @app.task(retries=0)
    async def odd(text: str) -> None:
        raise ValueError(text.replace("NUL", "\x00").replace("HALF", "\ud800"))

    class Silent(Exception):
        def __str__(self) -> str:
            raise RuntimeError("not even that")

    @app.task(retries=0)
    async def silent() -> None:
        raise Silent

    async with working(app):
        receipts = [await odd.submit(text=text) for text in ("a NUL b", "a HALF b", "x" * 200_000, "")]
        runs = [await ended(app, receipt) for receipt in (*receipts, await silent.submit())]
    assert {run.state for run in runs} == {RunState.FAILED}
    assert [run.error.splitlines()[0] for run in runs[:2]] == ["ValueError: a ␀ b", r"ValueError: a \ud800 b"]
    assert len(runs[2].error) < 25_000
    assert "its message cannot be read" in runs[4].error


async def test_a_task_that_exits_ends_only_its_own_attempt(app: App) -> None:
    @app.task(retries=0)
    async def leave() -> None:
        raise SystemExit(3)

    @app.task(retries=0)
    def leave_thread() -> None:
        raise SystemExit(3)

    @app.task
    async def sibling() -> str:
        return "fine"

    async with working(app):
        for task in (leave, leave_thread):
            run = await ended(app, await task.submit())
            assert (run.state, run.failure) == (RunState.FAILED, FailureClass.ERROR)
            assert run.error.startswith("SystemExit: 3")
        assert (await ended(app, await sibling.submit())).value == "fine"
