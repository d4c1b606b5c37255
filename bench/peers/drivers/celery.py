"""Celery on Redis: results ignored, tasks acknowledged early, many prefetched (its optimizing guide), no gossip."""

import asyncio
from collections.abc import Sequence

from celery import Celery

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

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

    def work(self) -> None:
        asyncio.run(self.open())
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel=ERROR")
        app.worker_main(["worker", "--pool=prefork", "--concurrency=2", *quiet])


DRIVER = CeleryDriver
