"""How children begin: what they need for it is not the function's time, and costs its run nothing when it fails."""

import asyncio
import os
import signal
import sqlite3
import threading
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from duetime import App, FailureClass, RunState
from duetime.engine import reaper
from duetime.worker import children, processes, running_attempt
from tests.support import dying_start, slow_start, tasks
from tests.support.command import ROOT, Command
from tests.support.waiting import eventually
from tests.support.working import ended, working


async def test_a_timeout_counts_from_when_the_function_is_called(app: App) -> None:
    quick = app.task(process=True, timeout="500ms", retries=0)(slow_start.quick)
    hang = app.task(process=True, timeout="500ms", retries=0)(slow_start.hang)
    square = app.task(process=True, timeout="500ms", retries=0)(tasks.square)
    async with working(app, processes=1):
        assert (await ended(app, await square.submit(number=3))).value == 9, "the child is warm now, but not for these"
        for _ in range(2):
            run = await ended(app, await quick.submit())
            assert (run.state, run.value, len(run.attempts)) == (RunState.SUCCEEDED, "in time", 1)
        late = await ended(app, await hang.submit())
    assert (late.state, late.failure) == (RunState.FAILED, FailureClass.TIMEOUT)


async def test_a_start_that_takes_too_long_counts(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reaper knows when a run was claimed, and its timeout. It must never free one that is still about to begin."""
    assert timedelta(seconds=1.5 * running_attempt.START_ALLOWANCE) <= reaper._OVERDUE
    monkeypatch.setattr(running_attempt, "START_ALLOWANCE", 0.2)
    quick = app.task(process=True, timeout="300ms", retries=0)(slow_start.quick)
    async with working(app, processes=1):
        run = await ended(app, await quick.submit())
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.TIMEOUT)
    assert run.error.startswith("it had not started 0."), run.error


async def test_a_start_takes_no_longer_than_it_may(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    quick = app.task(process=True, retries=0)(slow_start.quick)
    square = app.task(process=True, retries=0)(tasks.square)
    async with working(app, processes=1):
        with monkeypatch.context() as impatient:
            impatient.setattr(processes, "_START_DEADLINE", 0.3)
            run = await ended(app, await quick.submit())
        assert (await ended(app, await square.submit(number=3))).value == 9
    assert (run.state, run.failure) == (RunState.FAILED, FailureClass.ERROR)
    assert "its process failed: TimeoutError('it did not call the function within 0.3 s')" in run.error


@pytest.mark.parametrize("deaths", [2, 3])
async def test_a_child_that_dies_before_it_begins_spends_nothing_a_few_times(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deaths: int
) -> None:
    (tmp_path / "deaths").write_text(str(deaths))
    monkeypatch.setenv(dying_start.DEATHS, str(tmp_path / "deaths"))
    quick = app.task(process=True, retries=0, delivery="at_most_once")(dying_start.quick)
    async with working(app, processes=1):
        run = await ended(app, await quick.submit())
    assert len(run.attempts) == 1
    if deaths == 2:
        assert (run.state, run.value, run.attempt) == (RunState.SUCCEEDED, "alive", 1)
    else:
        assert (run.state, run.error) == (RunState.FAILED, "its process ended before it started, 3 times: exit code 7")


APP = """
import duetime

app = duetime.App()


@app.task(process=True, retries=0)
def quick():
    pass


@app.on_start
async def plan():
    await quick.submit()
"""
SLOW_PYTHON = """
import sys
import time

if "--multiprocessing-fork" in sys.orig_argv:
    with open("starts", "a") as starts:
        print("one", file=starts)
    time.sleep(1)
"""


def test_ctrl_c_while_a_child_starts_spends_nothing(tmp_path: Path) -> None:
    """A terminal sends it to all processes of the command."""
    (tmp_path / "plan.py").write_text(APP)
    (tmp_path / "sitecustomize.py").write_text(SLOW_PYTHON)
    with Command(tmp_path, "up", "plan:app", environ={"PYTHONPATH": f"{tmp_path}:{ROOT}"}) as up:
        up.until(lambda _: (tmp_path / "starts").exists())
        os.killpg(up.pid, signal.SIGINT)
        assert up.ended() == 0
    with closing(sqlite3.connect(tmp_path / "duetime-data" / "duetime.db")) as file:
        ends = file.execute("select end_state, attempt, error from history").fetchall()
    assert ends == [(4, 1, None)], "it succeeded, within the grace period"
    assert (tmp_path / "starts").read_text() == "one\n", "in the child that was about to begin"
    assert "KeyboardInterrupt" not in up.stderr


async def test_a_start_that_is_not_waited_for_any_more_raises_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the caller was cancelled while the thread starts the child."""
    began, over = threading.Event(), threading.Event()
    raised: list[object] = []

    def child() -> None:
        began.set()
        over.wait(10)

    monkeypatch.setattr(children, "_child", child)
    monkeypatch.setattr(threading, "excepthook", raised.append)
    starting = asyncio.create_task(children.start_child())
    await asyncio.to_thread(began.wait, 10)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    over.set()
    await eventually(lambda: all(each.name != "duetime-process" for each in threading.enumerate()))
    assert raised == []
