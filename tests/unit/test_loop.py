"""A loop does round after round, is woken and stopped, and outlives a database that is away."""

import asyncio
import logging

import pytest

from duetime.errors import StoreUnavailable
from duetime.process.loop import Loop, spread


def test_a_spread_delay_is_less_by_no_more_than_asked() -> None:
    drawn = [spread(10.0, 0.2) for _ in range(1000)]
    assert 8.0 <= min(drawn) < 8.5
    assert 9.5 < max(drawn) <= 10.0


async def test_a_loop_that_sleeps_is_woken_and_stopped() -> None:
    rounds: asyncio.Queue[int] = asyncio.Queue()

    async def tick() -> float:
        rounds.put_nowait(1)
        return 3600.0

    loop = Loop("a loop", tick)
    running = asyncio.create_task(loop.run())
    await rounds.get()
    loop.wake()
    await rounds.get()
    loop.stop()
    await asyncio.wait_for(running, 5)
    assert rounds.empty()


async def test_what_wakes_a_loop_during_its_round_is_not_forgotten() -> None:
    rounds = 0

    async def tick() -> float:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            loop.wake()
        else:
            loop.stop()
        return 3600.0

    loop = Loop("a loop", tick)
    await asyncio.wait_for(loop.run(), 5)
    assert rounds == 2


async def test_a_loop_outlives_a_database_that_is_away(caplog: pytest.LogCaptureFixture) -> None:
    rounds = 0

    async def tick() -> float:
        nonlocal rounds
        rounds += 1
        if rounds <= 2:
            raise StoreUnavailable("the database is away")
        loop.stop()
        return 0.0

    loop = Loop("a loop", tick)
    with caplog.at_level(logging.WARNING, "duetime.loop"):
        await asyncio.wait_for(loop.run(), 10)
    assert rounds == 3
    # Said once when it begins and once when it is over, however many tries there were.
    assert caplog.messages == [
        "a loop: the database is away; retrying until it is available",
        "a loop: works again after 2 tries",
    ]


async def test_anything_else_that_a_round_raises_ends_the_loop() -> None:
    async def broken() -> float:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await asyncio.wait_for(Loop("a loop", broken).run(), 5)
