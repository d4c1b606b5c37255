"""Work on many items in slices, so that the event loop answers others in between.

What one request may ask for takes longer than the event loop may be kept busy (50 ms). A slice ends after a fixed time,
not after a number of items: an item may take a microsecond or some milliseconds.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from duetime.clock import monotonic

T = TypeVar("T")
R = TypeVar("R")

SLICE = 0.008
"""Seconds after which others have their turn."""


class Slices:
    """Lets others have their turn whenever a slice is over. Ask after each item: it costs next to nothing."""

    def __init__(self) -> None:
        self._until = monotonic() + SLICE

    async def breathe(self) -> None:
        if monotonic() > self._until:
            await asyncio.sleep(0)
            self._until = monotonic() + SLICE


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
