"""APScheduler 3: jobs that run once, now. Submitting and running happen in one process, as it is made for.

`memory` is its fastest store, which keeps nothing when the process ends; `postgres` is the store that keeps jobs.
"""

import asyncio
import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime

import psycopg
import uvloop
from apscheduler.executors.asyncio import AsyncIOExecutor
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.jobstores.sqlalchemy import SQLAlchemyJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from bench.peers.driver import ARGUMENT, Driver, plan, send
from bench.peers.tally import begin, hit


async def nothing(sent: float, to: str) -> None:
    hit(sent)


class ApSchedulerDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        if self.url == "memory":
            store = MemoryJobStore()
        else:
            store = SQLAlchemyJobStore(url=self.url.replace("postgresql://", "postgresql+psycopg://"))
        self._scheduler = AsyncIOScheduler(
            jobstores={"default": store}, executors={"default": AsyncIOExecutor()}, timezone=UTC
        )
        self._scheduler.start(paused=True)

    async def close(self) -> None:
        self._scheduler.shutdown(wait=False)

    async def reset(self) -> None:
        self._scheduler.remove_all_jobs()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        now = datetime.now(UTC)
        for moment in moments:
            self._scheduler.add_job(nothing, "date", (moment, ARGUMENT), run_date=now, misfire_grace_time=None)

    async def plan(self, moments: Sequence[float]) -> None:
        for moment in moments:
            at = datetime.fromtimestamp(moment, UTC)
            self._scheduler.add_job(nothing, "date", (moment, ARGUMENT), run_date=at, misfire_grace_time=None)

    def work(self) -> None:
        logging.disable(logging.WARNING)
        uvloop.run(self._work())

    async def _work(self) -> None:
        await self.open()
        if fill := os.environ.get("FILL"):
            for start in range(0, int(fill), 1000):
                await self.submit([datetime.now(UTC).timestamp()] * min(1000, int(fill) - start), bulk=True)
            self._settle()
        begin()
        self._scheduler.resume()
        if sending := os.environ.get("SEND"):
            rate, seconds = sending.split()
            await send(self, float(rate), float(seconds))
        if planned := os.environ.get("PLAN"):
            rate, seconds = planned.split()
            await plan(self, float(rate), float(seconds))
        await asyncio.Event().wait()

    def _settle(self) -> None:
        """What was just filled is vacuumed, analysed and on disk, as it is for the limit."""
        if self.url != "memory":
            with psycopg.connect(self.url, autocommit=True) as connection:
                connection.execute("vacuum analyze")
                connection.execute("checkpoint")


DRIVER = ApSchedulerDriver
