"""duetime itself, driven like every peer: the command `duetime worker`, and `submit_many`.

`PEER_SLOTS` and `PEER_TASK` name other slots and another task of `bench.tasks`; `LANES` spreads jobs over queues;
`PEER_STREAM` is the broker that they go through.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import uvloop

from bench.peers.driver import ARGUMENT, PLANS, Driver, send, submit
from bench.processes import ENCRYPTION
from bench.streamed import through
from bench.tasks import app
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_QUEUE, DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.node.assembly import Node
from duetime.settings import Settings
from duetime.store.address import open_ready, store_for

SLOTS = int(os.environ.get("PEER_SLOTS", "1000"))
TASK = app.tasks[os.environ.get("PEER_TASK", "nothing")]
THREADS = 32


class DuetimeDriver(Driver):
    run = staticmethod(uvloop.run)

    async def open(self) -> None:
        app.configure(self._settings())

    async def close(self) -> None:
        await app.shut_down()

    async def reset(self) -> None:
        store = store_for(self._settings())
        await open_ready(store, migrate=True)
        if address := os.environ.get("PEER_STREAM"):
            await through(store, DEFAULT_QUEUE, address)
        await store.close()

    async def submit(self, moments: Sequence[float], *, bulk: bool) -> None:
        if (lanes := int(os.environ.get("LANES", "1"))) > 1:
            await self._submit_to(moments, lanes)
        elif bulk:
            await app.submit_many([TASK.bind(sent=moment, to=ARGUMENT) for moment in moments])
        else:
            for moment in moments:
                await TASK.submit(sent=moment, to=ARGUMENT)

    async def _submit_to(self, moments: Sequence[float], lanes: int) -> None:
        """One after the other to as many queues: each is a lane."""
        jobs = [
            prepare(
                task=TASK.name,
                args={"sent": moment, "to": ARGUMENT},
                max_payload=1000,
                queue=f"queue-{number % lanes}",
                timeout=timedelta(milliseconds=TASK.base.timeout_ms or 0),
            )
            for number, moment in enumerate(moments)
        ]
        await (await app.store()).intake.submit(DEFAULT_TENANT, jobs)

    async def plan(self, moments: Sequence[float]) -> None:
        jobs = [
            prepare(
                task=TASK.name,
                args={"sent": moment, "to": ARGUMENT},
                max_payload=1000,
                schedule=Once(at=datetime.fromtimestamp(moment, UTC)),
                timeout=timedelta(milliseconds=TASK.base.timeout_ms or 0),
            )
            for moment in moments
        ]
        await (await app.store()).intake.submit(DEFAULT_TENANT, jobs)

    def work(self) -> None:
        if not os.environ.keys().isdisjoint(("FILL", "SEND")):
            uvloop.run(self._all_in_one())
            return
        os.environ.update({"DUETIME_DATABASE_URL": self.url, "DUETIME_LOG_LEVEL": "warning"})
        command = [sys.executable, "-m", "duetime.cli"]
        if PLANS:  # a worker runs what is ready; a server sees to it that it is
            environ = {**os.environ, **ENCRYPTION, "DUETIME_PORT": "0"}
            subprocess.Popen([*command, "server"], env=environ)
        options = ("--slots", str(SLOTS), "--threads", str(THREADS))
        os.execv(command[0], [*command, "worker", "bench.tasks:app", *options])

    async def _all_in_one(self) -> None:
        """Submitting and working in one process: how an embedded file is used."""
        if fill := os.environ.get("FILL"):
            await self.reset()
            await self.open()
            await submit(self, int(fill), bulk=True)
            await self.close()
        node = Node(self._settings(), app=app, migrate=True)
        ready = asyncio.Event()

        async def up(*_: object) -> None:
            ready.set()

        running = asyncio.create_task(node.run(up))
        await ready.wait()
        if sending := os.environ.get("SEND"):
            rate, seconds = sending.split()
            await send(self, float(rate), float(seconds))
        await running

    def _settings(self) -> Settings:
        return Settings(database_url=self.url, slots=SLOTS, threads=THREADS)


DRIVER = DuetimeDriver
