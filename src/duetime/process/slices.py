"""Work on many items in slices, so that the event loop answers others in between.

What one request may ask for takes longer than the event loop may be kept busy (50 ms). A slice ends after a fixed time,
not after a number of items: an item may take a microsecond or some milliseconds.
"""

import asyncio
import math
from collections.abc import Callable, Iterable
from time import thread_time
from typing import TypeVar

from duetime.clock import monotonic
from duetime.errors import InvalidInput

T = TypeVar("T")
R = TypeVar("R")

SLICE = 0.008
"""Seconds after which others have their turn."""
MOST_SECONDS = 5.0
"""Of processor time that the jobs of one request may take to be checked: ten thousand usual ones take less than one."""


class Slices:
    """Lets others have their turn whenever a slice is over. Ask after each item: it costs next to nothing.

    All slices together may take `most` seconds of processor time: what a sender makes up may take long for each item.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._until = monotonic() + SLICE
        self._left = most
        self._began = thread_time()

    async def breathe(self) -> None:
        if monotonic() > self._until:
            self._left -= thread_time() - self._began
            if self._left < 0:
                raise InvalidInput("takes too long to check", remedy="send it in smaller parts")
            await asyncio.sleep(0)
            self._until = monotonic() + SLICE
            self._began = thread_time()


async def mapped(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """What `function` makes of each item, in their order."""
    found: list[R] = []
    until = monotonic() + SLICE
    for item in items:
        found.append(function(item))
        if monotonic() > until:
            await asyncio.sleep(0)
            until = monotonic() + SLICE
    return found
