"""Work on many items in time slices, so that the event loop serves others in between.

One request may take longer than the event loop may be busy (50 ms). A slice ends after a fixed time, not after a number
of items: an item may take a microsecond or some milliseconds.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from time import thread_time
from typing import TypeVar

from duetime.clock import monotonic
from duetime.errors import InvalidInput

T = TypeVar("T")
R = TypeVar("R")

SLICE = 0.008
"""Seconds after which the event loop gets its turn."""
MOST_SECONDS = 5.0
"""Seconds of processor time that validating the jobs of one request may take: ten thousand usual jobs take less than
one."""


class Slices:
    """Yields to the event loop whenever a slice has ended. Call it after each item: it costs next to nothing.

    All slices together may take `most` seconds of processor time: a hostile request may make each item slow.
    """

    def __init__(self, most: float = math.inf) -> None:
        self._until = monotonic() + SLICE
        self._left = most
        self._began = thread_time()

    async def yield_if_due(self) -> None:
        if monotonic() > self._until:
            self._left -= thread_time() - self._began
            if self._left < 0:
                raise InvalidInput("takes too long to validate", remedy="send smaller requests")
            await asyncio.sleep(0)
            self._until = monotonic() + SLICE
            self._began = thread_time()


async def mapped(function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """Apply `function` to each item, in order."""
    found: list[R] = []
    until = monotonic() + SLICE
    for item in items:
        found.append(function(item))
        if monotonic() > until:
            await asyncio.sleep(0)
            until = monotonic() + SLICE
    return found


async def collected(items: Iterable[T]) -> list[T]:
    """The items of a generator, each of which takes a moment to compute."""
    return await mapped(lambda item: item, items)


def batches(items: Sequence[T], most: int, most_bytes: int, size: Callable[[T], int]) -> Iterator[Sequence[T]]:
    """These items, so many and so many bytes at a time, in order; a larger item alone."""
    start = together = 0
    for at, item in enumerate(items):
        bytes_of_item = size(item)
        if at > start and (at - start == most or together + bytes_of_item > most_bytes):
            yield items[start:at]
            start, together = at, 0
        together += bytes_of_item
    if start < len(items):
        yield items[start:]
