"""Workers that reach their runs over HTTP: the same tasks, the same promises."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from duetime import App, Context, GiveUp, RetryAfter, RunState, Snooze, SyncContext
from duetime.client.transport import Transport
from duetime.errors import AccessDenied
from duetime.model.access import Role
from duetime.node.assembly import make_worker
from duetime.worker.http_source import HttpSource
from duetime.worker.worker import Worker
from tests.support.lying import Lie
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import ended
from tests.support.working import remote_worker as working_remotely


@asynccontextmanager
async def remote_worker(app: App, served: Served, key: str | None = None) -> AsyncIterator[Worker]:
    async with working_remotely(app, served.url, key or await served.key(Role.WORKER)) as worker:
        yield worker


async def test_every_way_to_end_reaches_the_store(app: App, served: Served) -> None:
    @app.task
    async def greet(to: str) -> str:
        return f"hello {to}"

    @app.task
    def in_a_thread(n: int) -> int:
        return n + 1

    @app.task(retries=0)
    async def fail() -> None:
        raise ValueError("no good")

    @app.task(retries=1)
    async def again(ctx: Context) -> int:
        if ctx.attempt == 1:
            raise RetryAfter("10ms", "not yet")
        return ctx.attempt

    @app.task
    async def snoozes(ctx: Context) -> str:
        if ctx.last_checkpoint is None:
            await ctx.checkpoint({"seen": True})
            raise Snooze("10ms")
        ctx.logger.warning("awake")
        return str(ctx.attempt)

    @app.task
    async def gives_up() -> None:
        raise GiveUp("of no use")

    async with remote_worker(app, served):
        greeted = await ended(app, await greet.submit(to="you"))
        assert (greeted.state, greeted.value) == (RunState.SUCCEEDED, "hello you")
        assert (await ended(app, await in_a_thread.submit(n=1))).value == 2
        failed = await ended(app, await fail.submit())
        assert failed.state is RunState.FAILED
        assert failed.error is not None
        assert failed.error.startswith("ValueError: no good\nTraceback ")
        assert (await ended(app, await again.submit())).value == 2
        snoozed = await ended(app, await snoozes.submit())
        assert snoozed.value == "1"
        assert snoozed.attempts[-1].log_lines == ["awake"]
        given_up = await ended(app, await gives_up.submit())
        assert (given_up.state, given_up.attempt) == (RunState.FAILED, 1)


async def test_a_running_run_is_stopped_soon_after_it_was_cancelled(app: App, served: Served) -> None:
    begun = asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    @app.task
    def hold_a_thread(ctx: SyncContext) -> None:
        ctx.stop_requested.wait(60)

    async with remote_worker(app, served):
        for task in (hold, hold_a_thread):
            receipt = await task.submit()
            await eventually(lambda receipt=receipt: _is_running(app, receipt.run_id))
            await app.cancel(receipt)
            assert (await ended(app, receipt)).state is RunState.CANCELLED


async def test_an_idle_worker_gets_a_run_at_once(app: App, served: Served) -> None:
    """By a hint: polling plays no part."""
    served.service.gateway.dealer._poll = 3600.0

    @app.task
    async def nothing() -> None:
        pass

    async with remote_worker(app, served):
        await ended(app, await nothing.submit())
        for _ in range(5):
            await asyncio.sleep(0.1)
            await ended(app, await nothing.submit())


async def test_a_worker_that_stops_hands_back_what_it_cannot_finish(app: App, served: Served) -> None:
    begun = asyncio.Event()

    @app.task
    async def hold() -> None:
        begun.set()
        await asyncio.sleep(3600)

    receipt = await hold.submit()
    async with remote_worker(app, served):
        await begun.wait()
    (run,) = await app.runs(receipt)
    assert (run.state, run.attempt) == (RunState.PENDING, 0)
    assert await (await app.store()).leases.workers() == []


async def test_a_key_that_may_not_work_ends_the_worker(app: App, served: Served) -> None:
    @app.task
    async def nothing() -> None:
        pass

    server = Transport(served.url, await served.key(Role.VIEWER))
    with pytest.raises(BaseExceptionGroup) as caught:
        await make_worker(app, HttpSource(server), app.settings).run()
    assert caught.group_contains(AccessDenied)
    await server.close()


async def _is_running(app: App, run_id: str | None) -> bool:
    assert run_id is not None
    return (await app.run(run_id)).state is RunState.RUNNING


async def test_a_claim_whose_answer_is_lost_is_asked_for_again_at_once(app: App, served: Served) -> None:
    """Nothing else waits, so nothing is seen that would be a reason to claim."""
    begun = 0

    @app.task
    async def count() -> int:
        nonlocal begun
        begun += 1
        return begun

    lie = Lie(served.store, "claim_many")
    async with remote_worker(app, served):
        run = await asyncio.wait_for(ended(app, await count.submit()), 10)
    assert lie.told
    assert (run.value, run.lost, len(run.attempts)) == (1, 0, 1)


async def test_a_worker_that_stops_finishes_what_it_has_begun_though_an_answer_is_lost(
    app: App, served: Served
) -> None:
    begun = asyncio.Event()

    @app.task
    async def short() -> str:
        begun.set()
        await asyncio.sleep(0.3)
        return "finished"

    async with remote_worker(app, served):
        receipt = await short.submit()
        await asyncio.wait_for(begun.wait(), 20)
        lie = Lie(served.store, "claim", happens=False)  # what a poll that was given up has brought
    assert lie.told
    [run] = await app.runs(receipt)
    assert (run.value, len(run.attempts)) == ("finished", 1)
