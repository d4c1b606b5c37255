"""Several runs in one child: what happens to each when one of them ends badly, is stopped, or is slow."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, Outcome, Snoozed, Succeeded
from duetime.store.address import store_in_memory
from duetime.worker import backlog, processes
from duetime.worker.backlog import STOPPED
from duetime.worker.children import Child
from duetime.worker.processes import ProcessExecutor
from duetime.worker.progress_reports import ProgressReports
from duetime.worker.running_attempt import Running, Stop
from duetime.worker.session import Session
from duetime.worker.task import define
from tests.support.noted import noted
from tests.support.waiting import eventually

TASK = define("noted", noted, process=True)
LANE = LaneKey(1, "default", 1, "noted")
KILLED = "its process ended: killed by SIGKILL"


class Children:
    """An executor that gives all runs to its only child at once."""

    def __init__(self, folder: Path) -> None:
        store = store_in_memory()
        self.file = folder / "calls"
        self.file.touch()
        self.ended: dict[str, Outcome] = {}
        self.executor = ProcessExecutor(
            1, ProgressReports(store, lambda: ()), self._finished, lambda _: None, max_result=1000, max_log_lines=10
        )
        self.executor._claim(200)  # as after many short runs

    def start(self, *names: str, **then: str) -> list[Running]:
        """Runs that return, or end as told."""
        runs = []
        for name in names:
            args = {"file": str(self.file), "name": name, "then": then.get(name, "return")}
            claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, json.dumps(args).encode(), None, None, None)
            runs.append(Running(claimed, TASK, LANE, Session(), 1, 10))
        self.executor._held += len(runs)
        self.executor._waiting.put_back([(running, backlog.monotonic()) for running in runs])
        self.executor._assign()
        return runs

    def stop(self, running: Running) -> None:
        running.stop = Stop.CANCEL
        self.executor.stop(running)

    async def all_ended(self, *names: str) -> dict[str, Outcome]:
        await eventually(lambda: self.ended.keys() >= set(names))
        return self.ended

    @property
    def calls(self) -> list[str]:
        return self.file.read_text().split()

    @property
    def only(self) -> Child:
        (child,) = self.executor._children
        return child

    def _finished(self, running: Running, outcome: Outcome) -> None:
        name = json.loads(running.claimed.args)["name"]
        assert name not in self.ended, "it ends once"
        self.ended[name] = outcome


@pytest.fixture
async def children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Children]:
    monkeypatch.setattr(backlog, "LONGEST_WAIT", 600.0)  # nothing is handed back because a child starts slowly
    made = Children(tmp_path)
    made.start("warm")
    await made.all_ended("warm")
    yield made
    made.executor.close()


def succeeded(outcomes: dict[str, Outcome]) -> set[str]:
    return {name for name, outcome in outcomes.items() if isinstance(outcome, Succeeded)}


def error(outcome: Outcome) -> str:
    assert isinstance(outcome, Failed)
    return outcome.failure.text


@pytest.mark.parametrize(("how", "said"), [("die", KILLED), ("exit", "its process ended: exit code 3")])
async def test_a_child_that_dies_in_a_batch_ends_one_run(children: Children, how: str, said: str) -> None:
    runs = children.start("a", "b", "c", "d", "e", c=how)
    assert len(children.only.held) == len(runs), "it was given all of them"
    ended = await children.all_ended("a", "b", "c", "d", "e")
    assert error(ended["c"]) == said
    assert succeeded(ended) == {"warm", "a", "b", "d", "e"}
    assert children.calls == ["warm", "a", "b", "c", "d", "e"], "each begins once"


async def test_a_child_that_dies_before_it_begins_any_ends_none(children: Children) -> None:
    first = children.only
    assert first.process.pid is not None
    os.kill(first.process.pid, signal.SIGSTOP)
    runs = children.start("a", "b")
    os.kill(first.process.pid, signal.SIGKILL)
    assert succeeded(await children.all_ended("a", "b")) == {"warm", "a", "b"}
    assert [running.false_starts for running in runs] == [1, 0], "it was about to begin the first"
    assert sorted(children.calls) == ["a", "b", "warm"]


async def test_time_in_a_child_that_begins_nothing_is_time_spent_waiting(children: Children) -> None:
    """Else its timeout would never count, and the reaper would free a run that may still begin."""
    first = children.only
    assert first.process.pid is not None
    os.kill(first.process.pid, signal.SIGSTOP)
    (run,) = children.start("a")
    assert run.begun, "as far as the worker knows"
    children.executor._put_back(first.recall())
    assert (run.begun, run.began) == (False, 0.0)
    os.kill(first.process.pid, signal.SIGCONT)
    assert isinstance((await children.all_ended("a"))["a"], Succeeded)


async def test_a_result_that_cannot_be_kept_harms_no_other(children: Children) -> None:
    first = children.only
    children.start("a", "b", "c", b="an object")
    ended = await children.all_ended("a", "b", "c")
    assert error(ended["b"]).startswith("duetime.errors.InvalidInput: result: ")
    assert succeeded(ended) == {"warm", "a", "c"}
    assert children.only is first


async def test_one_of_a_batch_is_stopped(children: Children) -> None:
    """Before it begins, it comes back from the child. In progress, only its child's death ends it."""
    first = children.only
    slow, *_, waits, _ = children.start("slow", "a", "b", "c", slow="hang")
    await eventually(lambda: "slow" in children.calls)
    children.stop(waits)
    assert (await children.all_ended("b"))["b"] is STOPPED
    assert children.only is first and first.usable, "the others go on"
    children.stop(slow)
    ended = await children.all_ended("slow", "a", "c")
    assert error(ended["slow"]) == KILLED
    assert succeeded(ended) == {"warm", "a", "c"}
    assert children.calls == ["warm", "slow", "a", "c"]


async def test_a_run_whose_end_is_not_known_yet_is_stopped(children: Children) -> None:
    """The child has gone on to the next one, which must not be killed in its place."""
    early, slow, _ = children.start("early", "slow", "late", slow="hang")
    block_until(lambda: "slow" in children.calls)  # the event loop reads nothing meanwhile
    children.stop(early)
    ended = await children.all_ended("early")
    assert isinstance(ended["early"], Succeeded)
    assert children.only.usable
    children.stop(slow)
    ended = await children.all_ended("slow", "late")
    assert (error(ended["slow"]), succeeded(ended)) == (KILLED, {"warm", "early", "late"})


async def test_all_of_a_batch_are_stopped_at_once(children: Children) -> None:
    runs = children.start("slow", "a", "b", "c", slow="hang")
    await eventually(lambda: "slow" in children.calls)
    for running in runs:
        children.stop(running)
    ended = await children.all_ended("slow", "a", "b", "c")
    assert error(ended["slow"]) == KILLED
    assert [ended[name] for name in "abc"] == [STOPPED] * 3
    assert not any(running.begun for running in runs[1:]), "none begins in another child"
    assert children.calls == ["warm", "slow"]


async def test_runs_behind_a_slow_one_are_handed_back(children: Children, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, *_ = children.start("slow", "a", "b", slow="hang")
    await eventually(lambda: "slow" in children.calls)
    for module in (backlog, processes):
        monkeypatch.setattr(module, "LONGEST_WAIT", 0.1)
    await asyncio.sleep(0.1)
    children.executor._waiting._check()
    ended = await children.all_ended("a", "b")
    assert all(isinstance(ended[name], Snoozed) for name in "ab")
    children.stop(slow)
    await children.all_ended("slow")
    assert children.calls == ["warm", "slow"]


async def test_another_child_shares_what_waits_in_one(children: Children) -> None:
    slow, *_ = children.start("slow", "a", "b", slow="hang")
    await eventually(lambda: "slow" in children.calls)
    children.executor._size = 2
    children.executor._spawn()
    assert succeeded(await children.all_ended("a", "b")) == {"warm", "a", "b"}
    children.stop(slow)
    await children.all_ended("slow")


async def test_an_executor_that_closes_abandons_its_batch(children: Children) -> None:
    children.start("slow", "a", slow="hang")
    await eventually(lambda: "slow" in children.calls)
    child = children.only
    children.executor.close()
    await eventually(lambda: not child.process.is_alive())
    await asyncio.sleep(0)
    assert children.ended.keys() == {"warm"} and children.calls == ["warm", "slow"]


def block_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert condition()
