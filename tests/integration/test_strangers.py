"""A run that its worker has forgotten, while the claim that it came with is still open: the worker disowns it."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from duetime import App, RunState, Settings
from duetime.model.access import Role
from duetime.node.assembly import engine_loops, make_worker
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.worker.store_source import StoreSource
from duetime.worker.worker import Worker
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import remote_worker, watch_clock

QUICK = {"lease": timedelta(seconds=1), "heartbeat": timedelta(milliseconds=200)}


@pytest.mark.parametrize("asked", [True, False], ids=["cancelled", "not cancelled"])
async def test_a_worker_on_the_store_disowns_it(app: App, asked: bool) -> None:
    settings = msgspec.structs.replace(app.settings, **QUICK)
    store = await app.store()
    await watch_clock(store, settings)
    parts: list[Loop | Worker] = [*engine_loops(store, settings), worker := _worker(app, store, settings)]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        await _forget_a_run(app, worker, asked)
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)


@pytest.mark.parametrize("asked", [True, False], ids=["cancelled", "not cancelled"])
async def test_a_remote_worker_disowns_it(app: App, served: Served, asked: bool) -> None:
    _add_task(app)
    async with remote_worker(app, served.url, await served.key(Role.WORKER), **QUICK) as worker:
        await _forget_a_run(app, worker, asked)


def _worker(app: App, store: Store, settings: Settings) -> Worker:
    _add_task(app)
    return make_worker(app, StoreSource(store), settings)


def _add_task(app: App) -> None:
    async def hold() -> None:
        await asyncio.sleep(60)

    app.task(name="hold")(hold)


async def _forget_a_run(app: App, worker: Worker, asked: bool) -> None:
    """As after a failover that lost the end of the one, while the other goes on."""
    receipts = await app.submit_many([app.tasks["hold"].bind(), app.tasks["hold"].bind()])
    await eventually(lambda: len(worker._attempts) == 2)
    forgotten, held = worker._attempts.under_way()
    assert forgotten.claim_no == held.claim_no
    del worker._attempts._running[forgotten.claimed.run_id]
    if asked:
        await app.cancel_run(forgotten.claimed.run_id)

    async def is_found() -> bool:
        run = await app.run(forgotten.claimed.run_id)
        return run.state is RunState.CANCELLED if asked else run.lost == 1

    await eventually(is_found)
    untouched = await app.run(held.claimed.run_id)
    assert (untouched.state, untouched.lost, untouched.fence) == (RunState.RUNNING, 0, 1)
    for receipt in receipts:
        await app.cancel(receipt)
