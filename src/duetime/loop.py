"""Loops: a loop is a `tick` that does one round and returns how long to sleep.

One class starts, wakes, stops and supervises them all. A database that is away makes a loop back off and resume by
itself; anything else that a tick raises ends the loop, and with it the process: a process must not only look alive.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Awaitable, Callable, Iterable

from duetime.errors import StoreUnavailable

log = logging.getLogger("duetime.loop")

Tick = Callable[[], Awaitable[float]]

_FIRST_BACKOFF = 0.1
_LONGEST_BACKOFF = 5.0


class Loop:
    """Runs `tick` again and again, sleeping for as long as it says, until stopped."""

    def __init__(self, name: str, tick: Tick, *, jitter: float = 0.0) -> None:
        self.name = name
        self._tick = tick
        self._jitter = jitter
        self._awake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """Do the next round now; from the loop's own event loop."""
        self._awake.set()

    def stop(self) -> None:
        """End after the round that is under way."""
        self._stopping.set()
        self._awake.set()

    async def run(self) -> None:
        while not self._stopping.is_set():
            self._awake.clear()
            delay = await self._round()
            if not self._stopping.is_set():
                await self._sleep(delay)

    async def _round(self) -> float:
        try:
            delay = await self._tick()
        except StoreUnavailable as error:
            self._failures += 1
            bound = min(_LONGEST_BACKOFF, _FIRST_BACKOFF * 2 ** min(self._failures, 10))
            if self._failures == 1:
                log.warning("%s: %s; trying again until it is back", self.name, error)
            return random.uniform(bound / 2, bound)
        if self._failures:
            log.warning("%s: the database is back after %d tries", self.name, self._failures)
            self._failures = 0
        return delay * random.uniform(1 - self._jitter, 1) if self._jitter else delay

    async def _sleep(self, delay: float) -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        # A wake-up says that there is work, not that the database is back.
        awaited = self._stopping if self._failures else self._awake
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay):
                await awaited.wait()


async def run_together(loops: Iterable[Loop]) -> None:
    """Run loops until all have stopped; when one fails, all end and its error is raised."""
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run(), name=f"duetime {loop.name}")
