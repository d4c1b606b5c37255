"""Async runs that never wait share asyncio tasks; no task function may notice."""

import asyncio
from contextvars import ContextVar

from duetime import App, RunState
from duetime.worker.context import current_context
from tests.support.waiting import eventually
from tests.support.working import ended, working

tint: ContextVar[str] = ContextVar("tint", default="none")


async def test_a_context_variable_ends_with_its_run(app: App) -> None:
    seen: list[str] = []

    @app.task
    async def paint(colour: str) -> None:
        seen.append(tint.get())
        tint.set(colour)

    async with working(app):
        for receipt in await app.submit_many([paint.bind(colour=str(number)) for number in range(100)]):
            await ended(app, receipt)
    assert seen == ["none"] * 100


async def test_each_run_finds_its_own_context(app: App) -> None:
    seen: dict[int, str] = {}

    @app.task
    async def look(number: int) -> None:
        if number % 3 == 0:
            await asyncio.sleep(0)
        seen[number] = current_context().run_id

    async with working(app):
        receipts = await app.submit_many([look.bind(number=number) for number in range(60)])
        runs = [await ended(app, receipt) for receipt in receipts]
    assert list(dict(sorted(seen.items())).values()) == [receipt.run_id for receipt in receipts]
    assert {run.state for run in runs} == {RunState.SUCCEEDED}


async def test_a_run_that_waits_holds_up_nobody(app: App) -> None:
    gate, begun = asyncio.Event(), []

    @app.task
    async def wait(number: int) -> None:
        begun.append(number)
        await gate.wait()

    async with working(app):
        receipts = await app.submit_many([wait.bind(number=number) for number in range(20)])
        await eventually(lambda: len(begun) == 20)
        gate.set()
        for receipt in receipts:
            assert (await ended(app, receipt)).state is RunState.SUCCEEDED


async def test_a_run_that_cancels_its_own_task_takes_no_other_along(app: App) -> None:
    @app.task(retries=0)
    async def odd(number: int) -> None:
        if number % 2:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        else:
            await asyncio.sleep(0)

    async with working(app):
        receipts = await app.submit_many([odd.bind(number=number) for number in range(40)])
        states = [(await ended(app, receipt)).state for receipt in receipts]
    assert states == [RunState.SUCCEEDED] * 40
