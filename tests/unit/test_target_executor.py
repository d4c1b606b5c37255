"""Attempts of targets, by hand: what happens before their first step."""

import asyncio

import pytest

from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.outcome import Failed, Outcome
from duetime.model.target import HTTP
from duetime.settings import Settings
from duetime.store.address import store_in_memory
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.runner import TargetRunner
from duetime.worker.running_attempt import Running, Stop
from duetime.worker.session import Session
from duetime.worker.targets import TargetExecutor
from duetime.worker.task import target_definition


@pytest.mark.parametrize("reason", list(Stop))
async def test_an_attempt_that_is_stopped_before_its_first_step_never_takes_it_and_still_ends(reason: Stop) -> None:
    """asyncio never starts a task that was cancelled before it began: its end would never be reported."""
    store = store_in_memory()
    ended: asyncio.Queue[tuple[Running, Outcome]] = asyncio.Queue()
    runner = TargetRunner(store, Settings(), CompletionLinks(store.tenants, "http://127.0.0.1:8420"))
    executor = TargetExecutor(runner, lambda running, outcome: ended.put_nowait((running, outcome)))
    claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, b"no target", None, None, None)
    running = Running(claimed, target_definition(HTTP), LaneKey(1, "default", 1, HTTP), Session(), 1, 10)
    executor.start(running)
    running.stop = reason
    executor.stop(running)
    found, outcome = await asyncio.wait_for(ended.get(), 10)
    await runner.close()
    assert found is running
    assert isinstance(outcome, Failed)
    assert outcome.failure.text == "it was stopped", "its target was not looked at"
    assert not running.begun
    assert ended.empty(), "it ends once"
