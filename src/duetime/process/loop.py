"""Loops: a loop is a `tick` that does one round and returns how long to sleep.

One class starts, wakes, stops and supervises them all. A database that is away makes a loop back off and resume by
itself; anything else that a tick raises ends the loop, and with it the process: a process must not only look alive.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from duetime.clock import monotonic
from duetime.errors import StoreUnavailable, reason_of

log = logging.getLogger("duetime.loop")

T = TypeVar("T")
Tick = Callable[[], Awaitable[float]]

_FIRST_BACKOFF = 0.1
_LONGEST_BACKOFF = 5.0


def spread(seconds: float, by: float) -> float:
    """Less by up to this share: those who began together shall not go on together for ever."""
    return seconds * random.uniform(1.0 - by, 1.0)


def not_missed(answer: "asyncio.Future[Any]") -> None:
    """To be called when it is done: whoever asked may have gone, and its error is for nobody."""
    if not answer.cancelled():
        answer.exception()


async def surely(ask: Callable[[], Awaitable[T]], within: float = math.inf) -> T:
    """Ask until there is an answer, for so many seconds; for what may be asked twice."""
    until, pause = monotonic() + within, _FIRST_BACKOFF
    while True:
        try:
            return await ask()
        except StoreUnavailable:
            pause = min(2 * pause, _LONGEST_BACKOFF)
            if monotonic() + pause > until:
                raise
        await asyncio.sleep(random.uniform(pause / 2, pause))


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
                log.warning("%s: %s; trying again until it is back", self.name, reason_of(error))
            wished: float | None = getattr(error, "retry_after", None)  # by a server that has a limit for it
            return random.uniform(bound / 2, bound) if wished is None else max(wished, bound / 2)
        if self._failures:
            log.warning("%s: the database is back after %d tries", self.name, self._failures)
            self._failures = 0
        return spread(delay, self._jitter) if self._jitter else delay

    async def _sleep(self, delay: float) -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        if self._failures:
            # A wake-up says that there is work, not that the database is back.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            return
        alarm = asyncio.get_running_loop().call_later(delay, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            alarm.cancel()


async def run_together(loops: Iterable[Loop]) -> None:
    """Run loops until all have stopped; when one fails, all end and its error is raised."""
    async with asyncio.TaskGroup() as group:
        for loop in loops:
            group.create_task(loop.run(), name=f"duetime {loop.name}")
