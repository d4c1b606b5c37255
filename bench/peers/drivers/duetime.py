"""duetime itself, driven like everybody else: the command `duetime worker`, and `submit_many`."""

import asyncio
import os
import sys
from collections.abc import Sequence

import uvloop

from bench.peers.driver import ARGUMENT, Driver, send
from bench.tasks import app, nothing
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.settings import Settings
from duetime.store.opening import open_ready, store_for
from duetime.wiring import Node

SLOTS = 1000


class DuetimeDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        app.configure(self._settings())

    async def close(self) -> None:
        await app.shut_down()

    async def reset(self) -> None:
        store = store_for(self._settings())
        await open_ready(store, migrate=True)
        await store.close()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        if (lanes := int(os.environ.get("LANES", "1"))) > 1:
            await self._submit_to(moments, lanes)
        elif bulk:
            await app.submit_many(nothing, [{"sent": moment, "to": ARGUMENT} for moment in moments])
        else:
            for moment in moments:
                await nothing.submit(sent=moment, to=ARGUMENT)

    async def _submit_to(self, moments: Sequence[float], lanes: int) -> None:
        """One after the other to as many queues: each is a lane."""
        jobs = [
            prepare(
                task="nothing",
                args={"sent": moment, "to": ARGUMENT},
                max_payload=1000,
                queue=f"queue-{number % lanes}",
            )
            for number, moment in enumerate(moments)
        ]
        await (await app.store()).submit(DEFAULT_TENANT, jobs)

    def work(self) -> None:
        if "SEND" in os.environ:
            uvloop.run(self._work_and_send())
            return
        os.environ.update({"DUETIME_DATABASE_URL": self.url, "DUETIME_LOG_LEVEL": "warning"})
        os.execv(
            sys.executable,
            [sys.executable, "-m", "duetime.cli", "worker", "bench.tasks:app", "--slots", str(SLOTS)],
        )

    async def _work_and_send(self) -> None:
        """All in one process: how an embedded file is used."""
        node = Node(self._settings(), app=app, migrate=True)
        ready = asyncio.Event()

        async def up(*_: object) -> None:
            ready.set()

        running = asyncio.create_task(node.run(up))
        await ready.wait()
        rate, seconds = os.environ["SEND"].split()
        await send(self, float(rate), float(seconds))
        await running

    def _settings(self) -> Settings:
        return Settings(database_url=self.url, slots=SLOTS)


DRIVER = DuetimeDriver
