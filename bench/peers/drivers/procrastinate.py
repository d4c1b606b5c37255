"""Procrastinate on PostgreSQL: high concurrency, jobs deferred in batches, successful jobs deleted."""

import logging
import os
from collections.abc import Sequence

import procrastinate
import uvloop

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

CONCURRENCY = int(os.environ.get("PEER_CONCURRENCY", "30"))
POOL = int(os.environ.get("PEER_POOL", "12"))

app = procrastinate.App(connector=procrastinate.PsycopgConnector(min_size=4, max_size=POOL))


@app.task(name="nothing", pass_context=False)
async def nothing(sent: float, to: str) -> None:
    hit(sent)


class ProcrastinateDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        app.connector = procrastinate.PsycopgConnector(conninfo=self.url, min_size=4, max_size=POOL)
        app.job_manager.connector = app.connector
        await app.open_async()

    async def close(self) -> None:
        await app.close_async()

    async def reset(self) -> None:
        await app.schema_manager.apply_schema_async()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        if bulk:
            await nothing.batch_defer_async(*({"sent": moment, "to": ARGUMENT} for moment in moments))
        else:
            for moment in moments:
                await nothing.defer_async(sent=moment, to=ARGUMENT)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        uvloop.run(self._work())

    async def _work(self) -> None:
        await self.open()
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful", fetch_job_polling_interval=0.5)


DRIVER = ProcrastinateDriver
