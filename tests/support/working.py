"""An app at work inside the test's own process: the engine's loops and a worker, with short waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from duetime import App, Receipt, Run, Settings
from duetime.loop import Loop
from duetime.wiring import engine_loops, make_worker
from duetime.worker.store_source import StoreSource
from duetime.worker.worker import Worker

PATIENCE = "20s"
"""How long a test waits for what should happen at once."""


def quick_settings(database_url: str) -> Settings:
    return Settings(database_url=database_url, poll=timedelta(milliseconds=50), grace=timedelta(seconds=1), processes=2)


@asynccontextmanager
async def working(app: App, **settings: Any) -> AsyncIterator[None]:
    """Scanner, reaper, pruner and a worker for the app, until the block ends; `settings` change the app's own."""
    store = await app.store()
    changed = msgspec.structs.replace(app.settings, **settings)
    parts: list[Loop | Worker] = [*engine_loops(store, changed), make_worker(app, StoreSource(store), changed)]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)


async def ended(app: App, receipt: Receipt) -> Run:
    """The job's newest run, once it has ended."""
    return await app.wait(receipt, PATIENCE)
