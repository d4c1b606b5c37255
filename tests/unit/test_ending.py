import asyncio

import pytest

from duetime.process import ending
from duetime.process.ending import end_tasks


async def test_tasks_end_however_they_end() -> None:
    async def fail() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise ValueError

    tasks = [asyncio.create_task(fail()), asyncio.create_task(asyncio.sleep(60)), asyncio.create_task(asyncio.sleep(0))]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await end_tasks([*tasks, None])
    assert [task.done() for task in tasks] == [True] * 3


async def test_a_lost_cancellation_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ending, "_AGAIN", 0.01)
    lost = 0

    async def lose_one() -> None:
        nonlocal lost
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            lost += 1
        await asyncio.sleep(60)

    task = asyncio.create_task(lose_one())
    await asyncio.sleep(0)
    await end_tasks([task])
    assert task.cancelled()
    assert lost == 1
