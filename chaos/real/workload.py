"""What the client of a real run asks for: a steady stream of one-offs, and a few jobs of every other kind."""

import asyncio
from itertools import count
from random import Random
from time import monotonic
from typing import Any

from chaos.client import Client, Ending
from chaos.scenarios import Scenario

_BATCH = 25


class Workload:
    def __init__(self, client: Client, random: Random, *, base: float, scenario: Scenario) -> None:
        self._client = client
        self._random = random
        self._base = base
        self._rate = scenario.rate
        self._longest_wait = scenario.longest_wait
        self._tasks = scenario.tasks
        self._single_every = scenario.single_every
        self._numbers = count(1)
        self._stopping = asyncio.Event()

    def stop(self) -> None:
        self._stopping.set()

    async def run(self) -> None:
        """Until stopped; what was begun is finished."""
        async with asyncio.TaskGroup() as group:
            for lane in range(4):
                group.create_task(self._stream(lane))
            group.create_task(self._singles(group))
            for tag, schedule, misfire in self._rhythms():
                group.create_task(self._recurring(tag, schedule, misfire))
            group.create_task(self._follower("second"))

    async def probe(self, slots: int) -> None:
        """Hold every slot at once. They are in a queue of their own: a partition of a stream is read by one worker, so
        its runs do not spread over all slots."""
        tags = [f"probe-{number}" for number in range(slots)]
        await self._client.until_known(lambda: self._client.submit_many(tags, seconds=(4.0,), queue="probes"))

    async def _stream(self, lane: int) -> None:
        pause = 4 * _BATCH / self._rate
        following = monotonic()
        for number in count(1):
            if self._stopping.is_set():
                return
            await self._client.submit_many([f"many-{lane}-{number}-{place}" for place in range(_BATCH)])
            following = max(following + pause, monotonic() - 1.0)
            await self._rest(following - monotonic())

    async def _singles(self, group: asyncio.TaskGroup) -> None:
        while not self._stopping.is_set():
            group.create_task(self._single(f"one-{next(self._numbers)}"))
            await self._rest(self._single_every)

    async def _single(self, tag: str) -> None:
        random, client = self._random, self._client
        options: dict[str, Any] = {"seconds": random.choice(self._tasks)}
        when = random.random()
        if when < 0.4:
            options["wait"] = round(random.uniform(0.1, self._longest_wait), 3)
        elif when < 0.5:
            options["at"] = round(self._base + monotonic() + random.uniform(-2.0, self._longest_wait / 2), 3)
        if random.random() < 0.2:
            options["fail"] = random.randint(1, 2)
        elif random.random() < 0.15:
            options["once"] = True
        if random.random() < 0.5:
            options["idempotent"] = f"key-{tag}"
            await client.until_known(lambda: client.submit(tag, **options))
        else:
            await client.submit(tag, **options)
        if random.random() < 0.3 and tag in client.jobs:
            on: Ending = random.choice(["success", "success", "finished"])
            await client.submit(f"{tag}-child", parent=tag, on=on, idempotent=f"key-{tag}-child")
        if random.random() < 0.2 and tag in client.jobs:
            await asyncio.sleep(random.uniform(0.0, 5.0))
            await client.until_known(lambda: client.cancel(tag))

    def _rhythms(self) -> list[tuple[str, dict[str, Any], Any]]:
        start = float(round(self._base + monotonic()))
        return [
            ("second", {"cron": "* * * * * *"}, "all"),
            ("second-latest", {"cron": "* * * * * *"}, "latest"),
            ("every-three", {"every": 3.0, "start_at": start}, "all"),
            ("every-twenty", {"cron": "*/20 * * * * *"}, "all"),
        ]

    async def _recurring(self, tag: str, schedule: dict[str, Any], misfire: Any) -> None:
        client = self._client
        await client.until_known(lambda: client.schedule(tag, schedule, misfire=misfire))
        if tag == "every-twenty":
            while not await self._rest(self._random.uniform(3.0, 10.0)):
                await client.trigger(tag)
        elif tag == "every-three":
            while not await self._rest(self._random.uniform(15.0, 30.0)):
                changed = {"every": float(self._random.choice([2, 3, 5])), "start_at": schedule["start_at"]}
                await client.until_known(lambda changed=changed: client.schedule(tag, changed, misfire=misfire))  # type: ignore[misc]
        else:
            await self._stopping.wait()
        await client.until_known(lambda: client.cancel(tag, recurring=True))

    async def _follower(self, parent: str) -> None:
        """A run after each run of another."""
        client = self._client
        while parent not in client.jobs:
            if await self._rest(0.1):
                return
        await client.until_known(lambda: client.follow("follower", parent))
        await self._stopping.wait()
        await client.until_known(lambda: client.unfollow("follower"))

    async def _rest(self, seconds: float) -> bool:
        """Wait; true when it is time to stop."""
        try:
            async with asyncio.timeout(max(0.0, seconds)):
                await self._stopping.wait()
        except TimeoutError:
            return False
        return True
