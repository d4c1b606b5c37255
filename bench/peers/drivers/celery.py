"""Celery on Redis: two workers that run tasks themselves (the solo pool: faster than a prefork pool of two), results
ignored, tasks acknowledged early, many prefetched (its optimizing guide), no gossip."""

import asyncio
import os
from collections.abc import Sequence
from datetime import UTC, datetime

from celery import Celery

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

POOL = os.environ.get("PEER_POOL", "solo")
CONCURRENCY = int(os.environ.get("PEER_CONCURRENCY", "1"))

app = Celery("bench")


@app.task(name="nothing", ignore_result=True)
def nothing(sent: float, to: str) -> None:
    hit(sent)


class CeleryDriver(Driver):
    async def open(self) -> None:
        app.conf.update(
            broker_url=self.url,
            task_ignore_result=True,
            worker_prefetch_multiplier=128,
            task_acks_late=False,
            broker_transport_options={"visibility_timeout": 3600},
            worker_send_task_events=False,
            broker_pool_limit=10,
        )

    async def reset(self) -> None:
        app.control.purge()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        with app.producer_pool.acquire(block=True) as producer:  # one connection for all of them
            for moment in moments:
                nothing.apply_async((moment, ARGUMENT), producer=producer)

    async def plan(self, moments: Sequence[float]) -> None:
        with app.producer_pool.acquire(block=True) as producer:
            for moment in moments:
                nothing.apply_async((moment, ARGUMENT), eta=datetime.fromtimestamp(moment, UTC), producer=producer)

    def work(self) -> None:
        asyncio.run(self.open())
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")
        app.worker_main(["worker", f"--pool={POOL}", f"--concurrency={CONCURRENCY}", *quiet])


DRIVER = CeleryDriver
