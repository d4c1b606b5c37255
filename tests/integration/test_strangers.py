"""A request to stop a run that its worker has forgotten, while the claim that it came with is still open."""

import asyncio
from datetime import timedelta

import msgspec

from duetime import App, RunState, Settings
from duetime.loop import Loop
from duetime.model.access import Role
from duetime.store.protocol import Store
from duetime.wiring import engine_loops, make_worker
from duetime.worker.store_source import StoreSource
from duetime.worker.worker import Worker
from tests.support.served import Served
from tests.support.waiting import eventually
from tests.support.working import remote_worker

QUICK = {"lease": timedelta(seconds=1), "heartbeat": timedelta(milliseconds=200)}


async def test_a_worker_on_the_store_disowns_it(app: App) -> None:
    settings = msgspec.structs.replace(app.settings, **QUICK)
    store = await app.store()
    parts: list[Loop | Worker] = [*engine_loops(store, settings), worker := _worker(app, store, settings)]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        await _cancel_a_forgotten_run(app, worker)
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)


async def test_a_remote_worker_disowns_it(app: App, served: Served) -> None:
    _add_task(app)
    async with remote_worker(app, served.url, await served.key(Role.WORKER), **QUICK) as worker:
        await _cancel_a_forgotten_run(app, worker)


def _worker(app: App, store: Store, settings: Settings) -> Worker:
    _add_task(app)
    return make_worker(app, StoreSource(store), settings)


def _add_task(app: App) -> None:
    async def hold() -> None:
        await asyncio.sleep(60)

    app.task(name="hold")(hold)


async def _cancel_a_forgotten_run(app: App, worker: Worker) -> None:
    """As after a failover that lost the end of the one, while the other goes on."""
    receipts = await app.submit_many("hold", [{}, {}])
    await eventually(lambda: len(worker._attempts) == 2)
    forgotten, held = worker._attempts.under_way()
    assert forgotten.claim_no == held.claim_no
    del worker._attempts._running[forgotten.claimed.run_id]
    await app.cancel_run(forgotten.claimed.run_id)

    async def is_cancelled() -> bool:
        return (await app.run(forgotten.claimed.run_id)).state is RunState.CANCELLED

    await eventually(is_cancelled)
    assert (await app.run(held.claimed.run_id)).state is RunState.RUNNING
    for receipt in receipts:
        await app.cancel(receipt)
