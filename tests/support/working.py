"""An app at work inside the test's own process: the engine's loops and a worker, with short waits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import msgspec

from duetime import App, JobReceipt, Run, Settings
from duetime.api.http_server import HttpServer
from duetime.client.transport import Transport
from duetime.engine.stream_keeper import StreamKeeper
from duetime.node.assembly import Node, engine_loops, make_worker, relaying
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.streams.brokers import Brokers
from duetime.telemetry.meters import Meters
from duetime.worker.http_source import HttpSource
from duetime.worker.stream_source import StreamSource
from duetime.worker.worker import Worker

ENCRYPTION = "first:MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="
"""What everything here is encrypted with."""
TIMEOUT = "20s"
"""How long a test waits for what should happen at once."""


def quick_settings(database_url: str) -> Settings:
    return Settings(
        database_url=database_url,
        poll=timedelta(milliseconds=50),
        grace=timedelta(seconds=1),
        processes=2,
        pool_size=3,  # what costs PostgreSQL most is the first use of each statement in each session
        encryption_keys=(ENCRYPTION,),
    )


async def watch_clock(store: Store, settings: Settings) -> None:
    """As if another node had watched the store's clock for a lease: one that starts now may judge leases at once."""
    now = await store.now()
    await store.clocks.keep_clock_seen(now - settings.lease, stepped=True)
    await store.clocks.keep_clock_seen(now, stepped=False)


@asynccontextmanager
async def working(app: App, **settings: Any) -> AsyncIterator[None]:
    """Scanner, reaper, pruner and a worker for the app, until the block ends; `settings` change the app's own."""
    store = await app.store()
    changed = msgspec.structs.replace(app.settings, **settings)
    await watch_clock(store, changed)
    brokers, meters = Brokers(), Meters()
    keeper = StreamKeeper(store, brokers, meters, lease=changed.lease)
    relay = relaying(store, changed, brokers)
    parts: list[Loop | Worker] = [
        *engine_loops(store, changed, oldest_message=keeper.oldest_message),
        Loop("stream keeper", keeper.tick),
        relay.loop,
        make_worker(app, StreamSource(store, meters), changed),
    ]
    running = [asyncio.create_task(part.run()) for part in parts]
    try:
        yield
    finally:
        for part in parts:
            part.stop()
        await asyncio.gather(*running)
        await relay.close()
        await brokers.close()


async def ended(app: App, receipt: JobReceipt) -> Run:
    """The job's newest run, once it has ended."""
    return await app.wait(receipt, TIMEOUT)


@asynccontextmanager
async def node(settings: Settings, app: App) -> AsyncIterator[str]:
    """All that `duetime up` runs, in this process."""
    address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def ready(store: Store, server: HttpServer | None) -> None:
        assert server is not None
        address.set_result(server.url)

    everything = Node(settings, app=app, serve=True, targets=True)
    running = asyncio.create_task(everything.run(ready))
    try:
        yield await address
    finally:
        everything.stop()
        await running


@asynccontextmanager
async def remote_worker(app: App, url: str, key: str, **settings: Any) -> AsyncIterator[Worker]:
    """A worker that reaches its runs over HTTP; `settings` change the app's own."""
    server = Transport(url, key)
    worker = make_worker(app, HttpSource(server), msgspec.structs.replace(app.settings, **settings))
    running = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        worker.stop()
        await running
        await server.close()
