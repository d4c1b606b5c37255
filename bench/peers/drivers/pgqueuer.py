"""PgQueuer on PostgreSQL: two processes, asyncpg, uvloop, large batches both ways (2,000 are faster than fewer);
durable tables and its log kept, as it installs."""

import logging
import os
import time
from collections.abc import Sequence
from datetime import timedelta

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgDriver, AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries

from bench.peers.driver import ARGUMENT, PLANS, Driver
from bench.peers.tally import hit

BATCH = int(os.environ.get("PEER_BATCH", "2000"))
POOL = int(os.environ.get("PEER_POOL", "8"))
POLL = 0.1 if PLANS else 1.0


class PgQueuerDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        self._connection = await asyncpg.connect(self.url)
        self._queries = Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def reset(self) -> None:
        await self._queries.install()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        step = len(moments) if bulk else 1
        for start in range(0, len(moments), step):
            part = moments[start : start + step]
            await self._queries.enqueue(["nothing"] * len(part), _bodies(part), [0] * len(part))

    async def plan(self, moments: Sequence[float]) -> None:
        after: list[timedelta | None] = [timedelta(seconds=moment - time.time()) for moment in moments]
        await self._queries.enqueue(["nothing"] * len(moments), _bodies(moments), [0] * len(moments), after)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        uvloop.run(self._work())

    async def _work(self) -> None:
        pool = await asyncpg.create_pool(self.url, min_size=4, max_size=POOL)
        manager = PgQueuer(AsyncpgPoolDriver(pool))

        @manager.entrypoint("nothing")
        async def nothing(job: Job) -> None:
            assert job.payload is not None
            hit(float(job.payload[: job.payload.index(b" ")]))

        await manager.run(dequeue_timeout=timedelta(seconds=POLL), batch_size=BATCH)


def _bodies(moments: Sequence[float]) -> list[bytes | None]:
    return [f"{moment!r} {ARGUMENT}".encode() for moment in moments]


DRIVER = PgQueuerDriver
