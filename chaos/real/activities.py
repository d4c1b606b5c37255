"""What some scenarios do beside the workload while the faults last: users and tasks that make trouble.

poison   a cron job whose task kills its worker
afresh   a new job every two seconds that kills its worker, and is not tried again
hold     tasks that complete inside a transaction of their own, and leave it open
pauses   a recurring job is paused over a backlog, and resumed
zones    cron jobs in time zones that no process has loaded yet
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from itertools import count
from random import Random
from time import monotonic

import asyncpg

from chaos.client import Client
from chaos.history import Writer
from duetime import App, Context
from duetime.errors import StoreError
from duetime.model.job import DEFAULT_TENANT

HOLD = 15.0
"""Seconds that a transaction stays open with a completed run in it."""
_RESTART = 2.0
_QUEUE = "pausing"
_BACKLOG = 10.0
_PAUSED = 5.0
_ZONES = [
    "Africa/Abidjan",
    "Africa/Cairo",
    "Africa/Nairobi",
    "America/Bogota",
    "America/Chicago",
    "America/Denver",
    "America/Halifax",
    "America/Lima",
    "America/Nome",
    "America/Phoenix",
    "Asia/Dhaka",
    "Asia/Dubai",
    "Asia/Hong_Kong",
    "Asia/Karachi",
    "Asia/Manila",
    "Asia/Seoul",
    "Asia/Tokyo",
    "Atlantic/Azores",
    "Australia/Darwin",
    "Australia/Perth",
    "Europe/Athens",
    "Europe/Kyiv",
    "Europe/Lisbon",
    "Europe/Oslo",
    "Europe/Rome",
    "Europe/Vienna",
    "Indian/Maldives",
    "Pacific/Apia",
    "Pacific/Fiji",
    "Pacific/Guam",
    "Pacific/Tongatapu",
]


def add_hostile_tasks(app: App, writer: Writer, node: str) -> None:
    """The tasks that `poison` and `hold` start. Each records what it does to the product as a fault."""

    @app.task(name="poison")
    async def poison(ctx: Context) -> None:
        t = monotonic()
        writer.write("faults", {"t": t, "until": t + _RESTART, "kind": "poison", "node": node, "strike": t})
        os.kill(os.getpid(), signal.SIGKILL)

    @app.task(name="hold")
    async def hold(ctx: Context, seconds: float) -> None:
        connection = await asyncpg.connect(os.environ["DUETIME_DATABASE_URL"])
        try:
            async with connection.transaction():
                await ctx.complete(connection)
                t = monotonic()
                writer.write("faults", {"t": t, "until": t, "kind": "held transaction", "node": node, "strike": t})
                await asyncio.sleep(seconds)
        finally:
            await connection.close()


class Activities:
    """Runs the activities of a scenario until stopped. Each undoes what would keep the rest from coming to an end."""

    def __init__(self, app: App, client: Client, random: Random) -> None:
        self._app = app
        self._client = client
        self._random = random
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self, names: tuple[str, ...]) -> None:
        async with asyncio.TaskGroup() as group:
            for name in names:
                group.create_task(ACTIVITIES[name](self))

    async def poison(self) -> None:
        receipt = await self._app.schedule("poison", key="poison", cron="*/2 * * * * *")
        await self._stopping.wait()
        await self._insist(lambda: self._app.cancel(receipt.job_id))

    async def afresh(self) -> None:
        while not await self._rest(2.0):
            await self._insist(lambda: self._app.submit("poison", delivery="at_most_once"))

    async def hold(self) -> None:
        """One after the other under one key, and other runs under this and other keys beside them."""
        following = monotonic()
        for number in count(1):
            if monotonic() >= following:
                following = monotonic() + HOLD + 2.0
                await self._insist(lambda: self._app.submit("hold", {"seconds": HOLD}, concurrency_key="held"))
            key = self._random.choice(["held", "other-1", "other-2", "other-3"])
            await self._client.submit(f"keyed-{number}", concurrency_key=key, idempotent=f"keyed-{number}")
            if await self._rest(0.3):
                return

    async def pauses(self) -> None:
        client, store, tag = self._client, await self._app.store(), "paused"
        schedule = {"cron": "* * * * * *", "queue": _QUEUE}
        hold, free = (
            partial(ask, DEFAULT_TENANT, _QUEUE) for ask in (store.queues.pause_queue, store.queues.resume_queue)
        )
        await client.until_known(lambda: client.schedule(tag, schedule, misfire="all"))
        while not await self._rest(3.0):
            await client.until_known(lambda: client.steer(tag, "hold", hold))
            await self._rest(_BACKLOG)
            await client.until_known(lambda: client.pause(tag))
            await asyncio.sleep(2.0)  # longer than a run that was claimed just before takes to begin
            await client.until_known(lambda: client.steer(tag, "free", free))
            await asyncio.sleep(_PAUSED)
            await client.until_known(lambda: client.resume(tag))
            await self._rest(5.0)
        await asyncio.sleep(_PAUSED)
        await client.until_known(lambda: client.cancel(tag, recurring=True))

    async def zones(self) -> None:
        async with asyncio.TaskGroup() as group:
            for number, zone in enumerate(_ZONES):
                group.create_task(self._zone(f"zone-{number}", zone))
                if await self._rest(1.5):
                    return

    async def _zone(self, tag: str, zone: str) -> None:
        client, schedule = self._client, {"cron": "* * * * * *", "tz": zone}
        await client.until_known(lambda: client.schedule(tag, schedule, misfire="all"))
        await self._rest(30.0)
        await client.until_known(lambda: client.cancel(tag, recurring=True))

    async def _insist(self, ask: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await ask()
            except StoreError:
                await asyncio.sleep(1.0)
            else:
                return

    async def _rest(self, seconds: float) -> bool:
        """Wait; true when it is time to stop."""
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True


ACTIVITIES: dict[str, Callable[[Activities], Coroutine[None, None, None]]] = {
    "poison": Activities.poison,
    "afresh": Activities.afresh,
    "hold": Activities.hold,
    "pauses": Activities.pauses,
    "zones": Activities.zones,
}
