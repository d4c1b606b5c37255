"""Attempts on the event loop, by hand: what happens before their first step."""

import asyncio
from datetime import UTC, datetime

import pytest

from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey
from duetime.model.outcome import Outcome, Succeeded
from duetime.store.address import store_in_memory
from duetime.worker.executor import LoopExecutor
from duetime.worker.progress_reports import ProgressReports
from duetime.worker.running_attempt import Running, Stop
from duetime.worker.session import Session
from duetime.worker.task import define

NOW = datetime(2026, 3, 2, tzinfo=UTC)


@pytest.mark.parametrize("reason", list(Stop))
async def test_an_attempt_that_is_stopped_before_its_first_step_never_takes_it_and_still_ends(reason: Stop) -> None:
    """asyncio never starts a task that was cancelled before it began: its end would never be reported."""
    started: list[int] = []
    ended: asyncio.Queue[tuple[Running, Outcome]] = asyncio.Queue()

    async def work() -> None:
        started.append(1)

    store = store_in_memory()
    executor = LoopExecutor(
        1,
        store,
        ProgressReports(store, lambda: ()),
        lambda running, outcome: ended.put_nowait((running, outcome)),
        lambda _: None,
        1000,
    )
    claimed = Claimed(new_id(), new_id(), 1, 1, 1, 0, 0, 0, 0, b"{}", None, None, None)
    running = Running(claimed, define("work", work), LaneKey(1, "default", 1, "work"), Session(), 1, 10)
    executor.start(running)
    running.stop = reason
    executor.stop(running)
    found, outcome = await asyncio.wait_for(ended.get(), 10)
    assert found is running
    assert not isinstance(outcome, Succeeded)
    assert started == []
    assert not running.begun
    assert ended.empty(), "it ends once"
    executor.close()
