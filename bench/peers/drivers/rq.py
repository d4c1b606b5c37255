"""RQ on Redis: two workers of the kind that does not fork for each job (`SimpleWorker`), results not kept."""

import logging
import multiprocessing
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

from redis import Redis
from rq import Queue, SimpleWorker

from bench.peers.driver import ARGUMENT, PLANS, Driver
from bench.peers.tally import hit

TASK = "bench.peers.drivers.rq.nothing"
WORKERS = int(os.environ.get("PEER_WORKERS", "2"))


def nothing(sent: float, to: str) -> None:
    hit(sent)


class RqDriver(Driver):
    async def open(self) -> None:
        self._redis = Redis.from_url(self.url)
        self._queue = Queue(connection=self._redis)

    async def reset(self) -> None:
        self._redis.flushdb()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        if bulk:
            made = [Queue.prepare_data(TASK, (moment, ARGUMENT), result_ttl=0) for moment in moments]
            self._queue.enqueue_many(made)
        else:
            for moment in moments:
                self._queue.enqueue(TASK, moment, ARGUMENT, result_ttl=0)

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            self._queue.enqueue_at(datetime.fromtimestamp(moment, UTC), TASK, moment, ARGUMENT, result_ttl=0)

    def work(self) -> None:
        children = [multiprocessing.get_context("spawn").Process(target=work, args=(self.url,)) for _ in range(WORKERS)]
        signal.signal(signal.SIGTERM, lambda *_: [child.kill() for child in children])
        for child in children:
            child.start()
        for child in children:
            child.join()


def work(url: str) -> None:
    worker = SimpleWorker(["default"], connection=Redis.from_url(url))
    worker.work(logging_level=logging.ERROR, with_scheduler=PLANS)


DRIVER = RqDriver
