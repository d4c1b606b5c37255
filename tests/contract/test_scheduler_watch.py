"""A worker beside the database says that nothing fires jobs, once."""

from datetime import timedelta

import pytest

from duetime.engine.scheduler_watch import SchedulerWatch
from duetime.store.protocol.store import Store
from tests.contract.worlds import Time


async def test_a_worker_says_once_that_no_server_is_up(
    store: Store, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    watch = SchedulerWatch(store, silence_limit=timedelta(0))
    for _ in range(2):
        await watch.tick()
    assert len(caplog.records) == 1
    assert "no server has ever been up" in caplog.text and "duetime server" in caplog.text
    await store.clocks.keep_clock_seen((await store.clocks.clock_seen()).now, stepped=False)
    caplog.clear()
    await watch.tick()
    assert caplog.text == "", "one is up"
    time.advance(minutes=2)
    for _ in range(2):
        await watch.tick()
    assert len(caplog.records) == 1 and "no server has been up for 2m" in caplog.text


async def test_a_server_that_restarts_is_waited_for(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    await SchedulerWatch(store).tick()
    assert caplog.text == ""
