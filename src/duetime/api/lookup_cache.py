"""A small memory of what was looked up a moment ago."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from duetime.clock import monotonic

K = TypeVar("K")
V = TypeVar("V")

MOST = 10_000
_TIMES = 20


class Memory(Generic[K, V]):
    """Remembers values for some seconds, and no more than so many of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[K, tuple[float, V]] = {}
        self._making: dict[K, asyncio.Task[V]] = {}

    def look(self, key: K) -> tuple[V] | None:
        """What is remembered, as a tuple of one: it may be None. One look, because what is asked for twice may be
        forgotten in between."""
        found = self._values.get(key)
        return (found[1],) if found is not None and found[0] > monotonic() else None

    def get(self, key: K) -> V | None:
        found = self.look(key)
        return None if found is None else found[0]

    async def share(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """What is remembered, or what is made now: once for all who ask meanwhile. It is remembered for some twenty
        times as long as it took, so that what is quickly made is never old."""
        found = self.look(key)
        if found is not None:
            return found[0]
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make))
        return await asyncio.shield(task)

    async def _make(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        began = monotonic()
        try:
            value = await make()
        finally:
            del self._making[key]
        return self.put(key, value, min(self._seconds, _TIMES * (monotonic() - began)))

    def put(self, key: K, value: V, seconds: float | None = None) -> V:
        if len(self._values) >= MOST:
            self._values.clear()
        self._values[key] = monotonic() + (self._seconds if seconds is None else seconds), value
        return value

    def clear(self) -> None:
        self._values.clear()
