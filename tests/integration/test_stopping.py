"""Attempts that are stopped: by their timeout, by a cancellation, or because their worker stops."""

import asyncio
import os
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from duetime import App, Context, FailureClass, JobState, NotFound, Receipt, RetryPolicy, Run, RunState, SyncContext
from duetime.clock import monotonic
from duetime.model.attempt import AttemptState
from duetime.worker import executor
from tests.support import tasks
from tests.support.lying import Lie
from tests.support.waiting import eventually
from tests.support.working import ended, working


async def newest(app: App, receipt: Receipt) -> Run:
    return (await app.runs(receipt))[0]


async def test_a_timeout_ends_an_async_attempt(app: App) -> None:
    cleaned_up = asyncio.Event()

    @app.task(timeout="100ms", retry=RetryPolicy(retries=1, base=0.01))
    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaned_up.set()

    async with working(app):
        run = await ended(app, await slow.submit())
    assert cleaned_up.is_set()
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.TIMEOUT)
    assert run.error == "it ran for longer than its timeout of 0.1 s"
    assert [each.failure for each in run.attempts] == [FailureClass.TIMEOUT] * 2


async def test_a_timeout_is_told_to_a_thread(app: App) -> None:
    @app.task(retries=0)
    def slow(ctx: SyncContext) -> str:
        assert ctx.stop_requested.wait(20)
        return "what it says after its time does not count"

    async with working(app):
        run = await ended(app, await slow.options(timeout=0.1).submit())
    assert (run.state, run.failure, run.value) == (RunState.FAILED, FailureClass.TIMEOUT, None)


async def test_a_thread_that_does_not_listen_keeps_its_slot(app: App) -> None:
    release = threading.Event()
    ran: list[str] = []

    @app.task(retries=0, timeout="100ms")
    def deaf() -> None:
        release.wait(20)
        ran.append("deaf")

    @app.task
    def next_one() -> None:
        ran.append("next")

    async with working(app, threads=1, lease=timedelta(seconds=4), heartbeat=timedelta(milliseconds=500)):
        run = await ended(app, await deaf.submit())
        waiting = await next_one.submit()
        assert ran == [], "its end is told after a lease; it goes on"
        release.set()
        await ended(app, waiting)
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.TIMEOUT)
    assert ran == ["deaf", "next"]


async def test_a_timeout_kills_a_process(app: App) -> None:
    hang = app.task(process=True, retries=0, timeout="1s")(tasks.hang)
    square = app.task(process=True)(tasks.square)
    async with working(app, processes=1):
        run = await ended(app, await hang.submit())
        assert (await ended(app, await square.submit(number=3))).value == 9
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.TIMEOUT)


async def test_an_attempt_within_its_timeout_is_left_alone(app: App) -> None:
    @app.task(timeout="30s")
    async def quick() -> str:
        return "in time"

    async with working(app):
        assert (await ended(app, await quick.submit())).value == "in time"


@pytest.mark.parametrize("run_in", ["5s", "1h"], ids=["in view", "distant"])
async def test_what_waits_is_cancelled_at_once(app: App, run_in: str) -> None:
    @app.task
    async def never() -> None: ...

    receipt = await never.options(run_in=run_in).submit()
    job = await app.cancel(receipt)
    assert (job.state, job.next_run) == (JobState.CANCELLED, None)
    assert all(run.state is RunState.CANCELLED for run in await app.runs(receipt))
    assert (await app.cancel(receipt)).state is JobState.CANCELLED, "a second time changes nothing"


async def test_a_run_is_cancelled_by_its_id(app: App) -> None:
    @app.task
    async def never() -> None: ...

    receipt = await never.options(run_in="5s").submit()
    run = await app.cancel_run(receipt.run_id)
    assert run.state is RunState.CANCELLED
    assert (await app.cancel_run(run.id)).state is RunState.CANCELLED


async def test_an_async_attempt_is_cancelled(app: App) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with working(app):
        receipt = await long.submit()
        await asyncio.wait_for(begun.wait(), 20)
        assert (await newest(app, receipt)).state is RunState.RUNNING
        await app.cancel(receipt)
        run = await ended(app, receipt)
    assert cancelled.is_set()
    assert (run.state, run.failure) == (RunState.CANCELLED, FailureClass.CANCELLED)
    assert [each.state for each in run.attempts] == [AttemptState.CANCELLED]
    assert (await app.job(receipt)).state is JobState.CANCELLED


async def test_a_thread_is_told_that_it_is_cancelled(app: App) -> None:
    begun = threading.Event()

    @app.task
    def long(ctx: SyncContext) -> None:
        begun.set()
        assert ctx.stop_requested.wait(20)
        assert ctx.cancelled
        raise RuntimeError("what it does about it does not count")

    async with working(app):
        receipt = await long.submit()
        assert await asyncio.to_thread(begun.wait, 20)
        await app.cancel_run(receipt.run_id)
        run = await ended(app, receipt)
    assert (run.state, run.failure) == (RunState.CANCELLED, FailureClass.CANCELLED)


async def test_a_cancelled_process_is_killed(app: App) -> None:
    hang = app.task(process=True)(tasks.hang)
    async with working(app):
        receipt = await hang.submit()
        await eventually(lambda: _begun(app, receipt))
        await app.cancel(receipt)
        run = await ended(app, receipt)
    assert (run.state, run.failure, len(run.attempts)) == (RunState.CANCELLED, FailureClass.CANCELLED, 1)


@pytest.mark.parametrize("function", [tasks.run_a_command, tasks.fork])
async def test_a_killed_process_may_leave_others_behind(
    app: App, tmp_path: Path, function: Callable[[SyncContext, str], None]
) -> None:
    """They keep what it had open, and go on running: the worker does not wait for them."""
    note = tmp_path / "note"
    wait_for_another = app.task(process=True)(function)
    async with working(app):
        receipt = await wait_for_another.submit(note=str(note))
        await eventually(lambda: note.exists() and note.read_text())
        began = monotonic()
        try:
            await app.cancel(receipt)
            run = await ended(app, receipt)
        finally:
            os.kill(int(note.read_text()), signal.SIGKILL)
        took = monotonic() - began
    assert (run.state, run.failure) == (RunState.CANCELLED, FailureClass.CANCELLED)
    assert took < 4


async def _begun(app: App, receipt: Receipt) -> bool:
    return (await newest(app, receipt)).progress == 0.5


async def test_a_cancelled_schedule_fires_no_more(app: App) -> None:
    @app.task
    async def tick() -> None: ...

    async with working(app):
        receipt = await tick.schedule(every="1s")
        await eventually(lambda: app.runs(receipt))
        job = await app.cancel(receipt)
        runs = await app.runs(receipt)
        # The next second comes and goes for another job.
        await ended(app, await tick.options(run_in="1100ms").submit())
    assert (job.state, job.next_run) == (JobState.CANCELLED, None)
    assert len(await app.runs(receipt)) == len(runs)


@pytest.mark.parametrize("job_id", ["job_01k00000000000000000000000", "job_7zzzzzzzzzzzzzzzzzzzzzzzzz"])
async def test_what_is_not_there_cannot_be_cancelled(app: App, job_id: str) -> None:
    for method in (app.cancel, app.job, app.wait):
        with pytest.raises(NotFound, match=f"there is no job {job_id}"):
            await method(job_id)
    run_id = job_id.replace("job", "run")
    for method in (app.cancel_run, app.run):
        with pytest.raises(NotFound, match=f"there is no run {run_id}"):
            await method(run_id)


async def test_a_stopped_worker_hands_back_what_it_cannot_finish(app: App) -> None:
    begun = asyncio.Event()

    @app.task
    async def long(ctx: Context) -> list[int]:
        if not begun.is_set():
            begun.set()
            await asyncio.Event().wait()
        return [ctx.attempt, ctx.lost]

    async with working(app, grace=timedelta(0)):
        receipt = await long.submit()
        await asyncio.wait_for(begun.wait(), 20)
    assert (await newest(app, receipt)).state is RunState.PENDING
    async with working(app):
        run = await ended(app, receipt)
    assert (run.value, len(run.attempts)) == ([1, 0], 1), "nothing was spent"


async def test_a_stopped_worker_lets_runs_finish_within_the_grace_period(app: App) -> None:
    begun = asyncio.Event()

    @app.task
    async def short() -> str:
        begun.set()
        await asyncio.sleep(0.1)
        return "finished"

    async with working(app, grace=timedelta(seconds=20)):
        receipt = await short.submit()
        await asyncio.wait_for(begun.wait(), 20)
    assert (await newest(app, receipt)).value == "finished"


async def test_what_has_started_and_is_handed_back_does_not_expire(app: App) -> None:
    began = asyncio.Event()

    @app.task(expires_in="1s")
    async def work() -> None:
        if not began.is_set():
            began.set()
            await asyncio.sleep(60)

    async with working(app, grace=timedelta(0)):
        receipt = await work.submit()
        await began.wait()
    await asyncio.sleep(1.1)
    async with working(app):
        run = await ended(app, receipt)
    assert (run.state, run.attempt) == (RunState.SUCCEEDED, 1), "nothing was spent"


async def test_what_may_run_only_once_is_not_handed_back(app: App) -> None:
    begun = asyncio.Event()

    @app.task(delivery="at_most_once")
    async def pay() -> None:
        begun.set()
        await asyncio.Event().wait()

    async with working(app, grace=timedelta(0)):
        receipt = await pay.submit()
        await asyncio.wait_for(begun.wait(), 20)
    run = await newest(app, receipt)
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.LOST)
    assert "at most once" in run.error


async def test_what_may_run_only_once_and_has_not_begun_is_handed_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_RUNS_A_TURN", 1)
    begun, one = set[int](), asyncio.Event()

    @app.task(delivery="at_most_once")
    async def pay(number: int) -> None:
        begun.add(number)
        one.set()

    async with working(app, slots=200, grace=timedelta(0)):
        receipts = await app.submit_many([pay.bind(number=number) for number in range(200)])
        await asyncio.wait_for(one.wait(), 20)
    runs = [await newest(app, receipt) for receipt in receipts]
    waiting = [run for number, run in enumerate(runs) if number not in begun]
    assert waiting, "the worker stopped before it had begun all of them"
    assert {(run.state, run.attempt, run.error) for run in waiting} == {(RunState.PENDING, 0, None)}


@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize("said", ["release", "hand_back", "leave"])
async def test_a_stopped_worker_repeats_what_was_not_answered(app: App, said: str, happens: bool) -> None:
    begun = asyncio.Event()

    @app.task
    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    store = await app.store()
    async with working(app, grace=timedelta(0), lease=timedelta(hours=1)):
        receipt = await long.submit()
        await asyncio.wait_for(begun.wait(), 20)
        lie = Lie(store, said, happens=happens)
    assert lie.told and lie.calls == 2
    assert (await newest(app, receipt)).state is RunState.PENDING
    assert await store.leases.workers() == []
