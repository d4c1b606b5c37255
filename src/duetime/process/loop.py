"""Loops: a loop is a `tick` that does one round and returns how long to sleep.

One class starts, wakes, stops and supervises them all. When the database is unavailable, a loop backs off and resumes
by itself. Any other error ends the loop, and with it the process: a process must not merely look alive.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from duetime.clock import monotonic
from duetime.errors import StoreUnavailable, reason_of

log = logging.getLogger("duetime.loop")

T = TypeVar("T")
Tick = Callable[[], Awaitable[float]]

_FIRST_BACKOFF = 0.1
_LONGEST_BACKOFF = 2.0
"""Seconds. After a failover, the work of a process resumes that much later at most."""


def spread(seconds: float, by: float) -> float:
    """Reduce by a random share of up to `by`, so that loops that started together drift apart."""
    return seconds * random.uniform(1.0 - by, 1.0)


def retrieve_error(answer: "asyncio.Future[Any]") -> None:
    """A done callback that marks the error as retrieved: the caller may be gone."""
    if not answer.cancelled():
        answer.exception()


async def retry_until_available(ask: Callable[[], Awaitable[T]], within: float = math.inf) -> T:
    """Retry while the store is unavailable, for so many seconds; for idempotent calls."""
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
    """Runs `tick` repeatedly, sleeping for as long as it returns, until stopped."""

    def __init__(self, name: str, tick: Tick, *, jitter: float = 0.0) -> None:
        self.name = name
        self._tick = tick
        self._jitter = jitter
        self._awake = asyncio.Event()
        self._stopping = asyncio.Event()
        self._failures = 0

    def wake(self) -> None:
        """Do the next round now; call it on the loop's own event loop."""
        self._awake.set()

    def stop(self) -> None:
        """End after the current round."""
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
                log.warning("%s: %s; retrying until it is available", self.name, reason_of(error))
            wished: float | None = getattr(error, "retry_after", None)  # set by a server that enforces a limit
            return random.uniform(bound / 2, bound) if wished is None else max(wished, bound / 2)
        if self._failures:
            log.warning("%s: works again after %d tries", self.name, self._failures)
            self._failures = 0
        return spread(delay, self._jitter) if self._jitter else delay

    async def _sleep(self, delay: float) -> None:
        if delay <= 0:
            await asyncio.sleep(0)
            return
        if self._failures:
            # A wake-up means that there is work, not that the database is available.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            return
        alarm = asyncio.get_running_loop().call_later(delay, self._awake.set)
        try:
            await self._awake.wait()
        finally:
            alarm.cancel()
