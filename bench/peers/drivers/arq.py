"""arq on Redis: many jobs at once, short polls, results not kept; submitted many at a time on one connection."""

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import uvloop
from arq import create_pool, func
from arq.connections import RedisSettings
from arq.worker import Worker

from bench.peers.driver import ARGUMENT, Driver
from bench.peers.tally import hit

AT_ONCE = 100
MOST = int(os.environ.get("PEER_MOST", "200"))
POLL = float(os.environ.get("PEER_POLL", "0.01"))


async def nothing(context: dict[str, Any], sent: float, to: str) -> None:
    hit(sent)


class ArqDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        self._pool = await create_pool(RedisSettings.from_dsn(self.url))

    async def close(self) -> None:
        await self._pool.aclose()

    async def reset(self) -> None:
        await self._pool.flushdb()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        for start in range(0, len(moments), AT_ONCE if bulk else 1):
            part = moments[start : start + (AT_ONCE if bulk else 1)]
            await asyncio.gather(*(self._pool.enqueue_job("nothing", moment, ARGUMENT) for moment in part))

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            at = datetime.fromtimestamp(moment, UTC)
            await self._pool.enqueue_job("nothing", moment, ARGUMENT, _defer_until=at)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        asyncio.set_event_loop(uvloop.new_event_loop())
        Worker(
            [func(nothing, name="nothing", keep_result=0)],
            redis_settings=RedisSettings.from_dsn(self.url),
            max_jobs=MOST,
            poll_delay=POLL,
            queue_read_limit=1000,
            keep_result=0,
        ).run()


DRIVER = ArqDriver
