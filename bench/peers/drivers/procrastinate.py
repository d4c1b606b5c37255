"""Procrastinate on PostgreSQL: high concurrency, jobs deferred in batches, successful jobs deleted."""

import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime

import procrastinate
import uvloop

from bench.peers.driver import ARGUMENT, PLANS, Driver
from bench.peers.tally import hit

CONCURRENCY = int(os.environ.get("PEER_CONCURRENCY", "30"))
POOL = int(os.environ.get("PEER_POOL", "12"))
POLL = 0.1 if PLANS else 0.5

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

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            at = datetime.fromtimestamp(moment, UTC)
            await nothing.configure(schedule_at=at).defer_async(sent=moment, to=ARGUMENT)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        uvloop.run(self._work())

    async def _work(self) -> None:
        await self.open()
        await app.run_worker_async(concurrency=CONCURRENCY, delete_jobs="successful", fetch_job_polling_interval=POLL)


DRIVER = ProcrastinateDriver
