"""Where attempts run: on the event loop, in threads, and in processes that may die."""

import asyncio
import contextlib
import multiprocessing
import os
import threading
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import uvloop

from duetime import App, FailureClass, LeaseLost, RetryPolicy, RunState, SyncContext, current_context
from duetime.model.attempt import AttemptState, RunNote
from duetime.worker import prefetch, processes
from duetime.worker.progress_reports import ProgressReports
from tests.support import tasks
from tests.support.waiting import eventually
from tests.support.working import ended, quick_settings, working

QUICK = RetryPolicy(retries=2, base=0.01)


async def test_a_plain_function_runs_in_a_thread(app: App) -> None:
    @app.task
    def where() -> list[Any]:
        context = current_context()
        assert isinstance(context, SyncContext)
        return [threading.current_thread() is threading.main_thread(), context.task]

    @app.task
    async def where_async() -> list[Any]:
        return [threading.current_thread() is threading.main_thread(), current_context().task]

    async with working(app):
        assert (await ended(app, await where.submit())).value == [False, where.name]
        assert (await ended(app, await where_async.submit())).value == [True, where_async.name]
    with pytest.raises(LookupError):
        current_context()


async def test_threads_run_side_by_side_and_no_more_than_allowed(app: App) -> None:
    meeting = threading.Barrier(3)
    most, lock, inside = 0, threading.Lock(), 0

    @app.task(retries=0)
    def meet() -> None:
        nonlocal most, inside
        with lock:
            inside += 1
            most = max(most, inside)
        meeting.wait(20)
        with lock:
            inside -= 1

    async with working(app, threads=3):
        receipts = await app.submit_many([meet.bind()] * 9)
        states = {(await ended(app, receipt)).state for receipt in receipts}
    assert states == {RunState.SUCCEEDED}
    assert most == 3


async def test_a_plain_function_that_hands_back_a_coroutine_has_failed(app: App) -> None:
    async def work() -> None: ...

    @app.task(retries=0)
    def wrapped() -> Any:
        return work()

    @app.task(retries=0)
    def submitting() -> Any:
        return wrapped.submit()

    async with working(app):
        for task in (wrapped, submitting):
            run = await ended(app, await task.submit())
            assert run.state is RunState.FAILED
            assert "returned a coroutine" in run.error


async def test_a_process_of_its_own(app: App) -> None:
    square = app.task(process=True)(tasks.square)
    async_square = app.task(process=True)(tasks.async_square)
    process_id = app.task(process=True)(tasks.process_id)
    async with working(app, processes=1):
        receipts = await app.submit_many([square.bind(number=number) for number in range(20)])
        assert [(await ended(app, receipt)).value for receipt in receipts] == [number**2 for number in range(20)]
        assert (await ended(app, await async_square.submit(number=7))).value == 49
        first, second = [(await ended(app, await process_id.submit())).value for _ in range(2)]
    assert first == second != os.getpid(), "a child is kept for the next attempt"


def test_a_process_of_its_own_on_either_event_loop(tmp_path: Path) -> None:
    """Everything that `duetime` starts has uvloop; an app inside another program has the loop that is there."""

    async def work(folder: Path) -> list[Any]:
        app = App()
        app.configure(quick_settings(f"sqlite:///{folder}/jobs.db"))
        square, hang = app.task(process=True)(tasks.square), app.task(process=True, retries=0)(tasks.hang)
        try:
            async with working(app, processes=1):
                receipts = await app.submit_many([square.bind(number=number) for number in range(50)])
                late = await hang.options(timeout="1s").submit()
                values = [(await ended(app, receipt)).value for receipt in receipts]
                return [
                    *values,
                    (await ended(app, late)).failure,
                    (await ended(app, await square.submit(number=9))).value,
                ]
        finally:
            await app.shut_down()

    for name, run in (("uvloop", uvloop.run), ("asyncio", asyncio.run)):
        (tmp_path / name).mkdir()
        assert run(work(tmp_path / name)) == [number**2 for number in range(50)] + [FailureClass.TIMEOUT, 81], name


async def test_a_child_that_is_killed_ends_its_own_attempt_only(app: App, tmp_path: Path) -> None:
    die = app.task(process=True, retry=QUICK)(tasks.die)
    leave = app.task(process=True, retries=0)(tasks.leave)
    square = app.task(process=True)(tasks.square)
    async with working(app, processes=2):
        siblings = await app.submit_many([square.bind(number=number) for number in range(10)])
        killed = await die.submit(marker=str(tmp_path / "was here"))
        always = await die.submit()
        left = await leave.submit(code=3)
        more = await app.submit_many([square.bind(number=number) for number in range(10)])
        values = [(await ended(app, receipt)).value for receipt in (*siblings, *more)]
        once, spent, exited = [await ended(app, receipt) for receipt in (killed, always, left)]
    assert values == [number**2 for number in range(10)] * 2
    assert (once.state, once.value, once.attempt) == (RunState.SUCCEEDED, "alive", 2)
    assert (once.attempts[0].state, once.attempts[0].failure) == (AttemptState.FAILED, FailureClass.ERROR)
    assert once.attempts[0].error == "its process ended: killed by SIGKILL"
    tried = [attempt for attempt in spent.attempts if attempt.state is not AttemptState.SNOOZED]  # given back, unspent
    assert (spent.state, len(tried)) == (RunState.FAILED, 3)
    assert (exited.state, exited.error) == (RunState.FAILED, "its process ended: exit code 3")


async def test_a_child_that_was_told_to_die_gets_no_other_run(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """A timeout may strike at the moment in which the function returns: its outcome has arrived, and its child dies
    unless it does the next one."""
    square = app.task(process=True, retries=0)(tasks.square)
    told = processes.ProcessExecutor._on_message
    struck = []

    def strike(self: processes.ProcessExecutor, worker: processes.Child, kind: str, order: int, content: Any) -> None:
        if kind == "outcome" and len(struck) < 5:
            struck.append(worker)
            self.stop(worker.held[0].running)
        told(self, worker, kind, order, content)

    monkeypatch.setattr(processes.ProcessExecutor, "_on_message", strike)
    monkeypatch.setattr(prefetch, "_LEAST_COUNTED", 1)
    monkeypatch.setattr(prefetch, "_MOMENT", 60.0)
    async with working(app, processes=1):
        receipts = await app.submit_many([square.bind(number=number) for number in range(20)])
        runs = [await ended(app, receipt) for receipt in receipts]
    assert [run.value for run in runs] == [number**2 for number in range(20)]
    assert len(struck) == 5


async def test_a_machine_without_room_for_processes_spends_nothing(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_ROOM_INTERVAL", 0.05)
    square = app.task(process=True, retries=0)(tasks.square)
    tries = 0

    def refuse() -> None:
        nonlocal tries
        tries += 1
        raise BlockingIOError("Resource temporarily unavailable")

    async def nobody_holds_them() -> bool:
        return not any([(await app.runs(receipt))[0].state is RunState.RUNNING for receipt in receipts])

    async with working(app, processes=2):
        with monkeypatch.context() as full:
            full.setattr(processes, "start_child", refuse)
            receipts = await app.submit_many([square.bind(number=number) for number in range(5)])
            await eventually(lambda: tries >= 5)
            await eventually(nobody_holds_them)
        runs = [await ended(app, receipt) for receipt in receipts]
        later = await ended(app, await square.submit(number=3))
    assert [run.value for run in runs] == [number**2 for number in range(5)]
    assert {run.attempt for run in runs} == {1}
    given_back = [item for run in runs for item in run.attempts if item.state is AttemptState.SNOOZED]
    assert len(given_back) <= 2, "what is given back is not claimed again while there is no room"
    assert later.value == 9
    assert sum("cannot start a process" in line for line in caplog.messages) == 1


async def test_a_machine_with_room_for_one_process(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_ROOM_INTERVAL", 0.05)
    square = app.task(process=True, retries=0)(tasks.square)
    start_child = processes.start_child
    tries = 0

    def start_one() -> Any:
        nonlocal tries
        tries += 1
        if tries > 1:
            raise BlockingIOError("Resource temporarily unavailable")
        return start_child()

    monkeypatch.setattr(processes, "start_child", start_one)
    async with working(app, processes=4):
        receipts = await app.submit_many([square.bind(number=number) for number in range(50)])
        runs = [await ended(app, receipt) for receipt in receipts]
    assert [run.value for run in runs] == [number**2 for number in range(50)]
    assert {run.attempt for run in runs} == {1} and tries > 1


async def test_what_a_child_raises_or_says_arrives(app: App) -> None:
    fail = app.task(process=True, retries=0)(tasks.fail)
    say = app.task(process=True)(tasks.say)
    async with working(app):
        failed = await ended(app, await fail.submit(text="a\x00b"))
        gave_up = await ended(app, await say.submit(what="give up"))
        nothing = await ended(app, await say.submit(what="nothing"))
    assert failed.error.startswith("LookupError: a␀b\n")
    assert "in fail" in failed.error
    assert (gave_up.state, gave_up.failure, gave_up.error) == (RunState.FAILED, FailureClass.GAVE_UP, "no use")
    assert (nothing.state, nothing.value) == (RunState.SUCCEEDED, None)


async def test_a_child_has_a_context(app: App) -> None:
    resume = app.task(process=True, retry=QUICK)(tasks.resume)
    async with working(app):
        run = await ended(app, await resume.options(queue="slow").submit())
    assert run.value == [2, {"done": 3}, "slow"]
    assert run.attempts[0].log_lines == [f"first attempt of {resume.name}"]


@pytest.mark.parametrize(
    ("asks_after", "ends_after", "said"),
    [(0, 0.05, ["its attempt has ended"]), (0.05, 0, ["its attempt has ended"] * 2)],
    ids=["asks before the end", "asks after the end"],
)
async def test_a_thread_that_a_function_leaves_behind_disturbs_nobody(
    app: App, monkeypatch: pytest.MonkeyPatch, asks_after: float, ends_after: float, said: list[str]
) -> None:
    save = ProgressReports.save

    async def slow_save(self: ProgressReports, worker_id: UUID, note: RunNote) -> None:
        await asyncio.sleep(0.3)
        with contextlib.suppress(LeaseLost):  # the run is over by then
            await save(self, worker_id, note)

    monkeypatch.setattr(ProgressReports, "save", slow_save)
    leave_a_thread = app.task(process=True, retries=0)(tasks.leave_a_thread)
    square = app.task(process=True, retries=0)(tasks.square)
    refusals = app.task(process=True, retries=0)(tasks.refusals)
    async with working(app, processes=1):
        left = await leave_a_thread.submit(asks_after=asks_after, ends_after=ends_after)
        receipts = await app.submit_many([square.bind(number=number) for number in range(20)])
        assert (await ended(app, left)).state is RunState.SUCCEEDED
        runs = [await ended(app, receipt) for receipt in receipts]
        assert (await ended(app, await refusals.submit())).value == said
    assert [run.value for run in runs] == [number**2 for number in range(20)]
    assert {(run.message, *run.attempts[0].log_lines) for run in runs} == {(None,)}, "what it says is not theirs"


async def test_threads_of_a_function_in_a_child_save_at_once(app: App) -> None:
    save_in_threads = app.task(process=True, retries=0, timeout="18s")(tasks.save_in_threads)
    async with working(app, processes=1):
        run = await ended(app, await save_in_threads.submit(threads=8, times=50))
    assert (run.state, run.value) == (RunState.SUCCEEDED, 400)


async def test_the_result_of_a_child_is_kept_if_it_can_be(app: App) -> None:
    give = app.task(process=True, retries=0)(tasks.give)
    async with working(app):
        runs = [await ended(app, await give.submit(what=what)) for what in ("large", "not JSON", "NUL")]
    assert [run.state for run in runs] == [RunState.SUCCEEDED, RunState.FAILED, RunState.SUCCEEDED]
    assert [run.value for run in runs] == [None, None, "a\x00b"]
    assert "the result was dropped" in runs[0].attempts[0].log_lines[0]
    assert (runs[1].error or "").startswith("duetime.errors.InvalidInput: result: ")


async def test_the_worker_leaves_no_child_behind(app: App) -> None:
    process_id = app.task(process=True)(tasks.process_id)
    hang = app.task(process=True)(tasks.hang)
    async with working(app, processes=2, grace=app.settings.poll):
        hanging = await hang.submit()
        idle: int = (await ended(app, await process_id.submit())).value

        async def message() -> str | None:
            return (await app.runs(hanging))[0].message

        busy = int((await eventually(message)).removeprefix("in process "))
        assert alive(idle) and alive(busy)
    await eventually(lambda: not alive(idle) and not alive(busy))
    assert (await app.runs(hanging))[0].state is RunState.PENDING, "handed back, nothing spent"


def alive(child: int) -> bool:
    multiprocessing.active_children()  # takes leave of those that have ended
    try:
        os.kill(child, 0)
    except ProcessLookupError:
        return False
    return True
