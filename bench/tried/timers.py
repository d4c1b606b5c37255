"""A deadline for each run: one wheel for all of them, or a timer of the event loop each. Most runs are over long
before; a thousand run at a time. Counted in seconds of CPU."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic, process_time
from typing import Any

import uvloop

from bench.tried.ways import Place, Ways
from duetime.worker.deadlines import DeadlineWheel

RUNNING = 1_000
TIMEOUT = 30.0


class Entry:
    __slots__ = ("bucket",)

    def __init__(self) -> None:
        self.bucket: int | None = None


def _expired(entry: Entry) -> None:
    raise AssertionError("nothing runs so long")


async def _by_wheel(count: int) -> None:
    wheel: DeadlineWheel[Entry] = DeadlineWheel(_expired)
    deadline = monotonic() + TIMEOUT
    running: deque[Entry] = deque()
    for number in range(count):
        entry = Entry()
        wheel.add(entry, deadline)
        running.append(entry)
        if len(running) > RUNNING:
            wheel.remove(running.popleft())
        if number % 50 == 0:
            await asyncio.sleep(0)
    wheel.close()


async def _by_timer(count: int) -> None:
    loop = asyncio.get_running_loop()
    running: deque[asyncio.TimerHandle] = deque()
    for number in range(count):
        running.append(loop.call_later(TIMEOUT, _expired, Entry()))
        if len(running) > RUNNING:
            running.popleft().cancel()
        if number % 50 == 0:
            await asyncio.sleep(0)
    for timer in running:
        timer.cancel()


def _try(place: Place, way: Callable[[int], Coroutine[Any, Any, None]]) -> float:
    began = process_time()
    uvloop.run(way(place.runs))
    return place.runs / (process_time() - began)


WAYS: Ways = {"one wheel": partial(_try, way=_by_wheel), "a timer each": partial(_try, way=_by_timer)}
