"""A small cache of lookups, with a time to live."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from duetime.clock import monotonic
from duetime.process.loop import retrieve_error

K = TypeVar("K")
V = TypeVar("V")

MOST = 10_000
_TIMES = 20


class Memory(Generic[K, V]):
    """Caches a limited number of values for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[K, tuple[float, V]] = {}
        self._making: dict[K, asyncio.Task[V]] = {}

    def look(self, key: K) -> tuple[V] | None:
        """The cached value as a 1-tuple, because it can be None; None if there is none. One call: between two, the
        entry could expire."""
        found = self._values.get(key)
        return (found[1],) if found is not None and found[0] > monotonic() else None

    def get(self, key: K) -> V | None:
        found = self.look(key)
        return None if found is None else found[0]

    async def share(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """The cached value, or a new one. Concurrent callers share one computation. A value is cached for twenty times
        as long as it took to make, so that cheap values are never old."""
        found = self.look(key)
        return await self._shared(key, make, _TIMES) if found is None else found[0]

    async def read(self, key: K, make: Callable[[], Awaitable[V]]) -> V:
        """The same, cached for as long as this memory does: for what every request needs."""
        found = self.look(key)
        return await self._shared(key, make, math.inf) if found is None else found[0]

    async def _shared(self, key: K, make: Callable[[], Awaitable[V]], times: float) -> V:
        task = self._making.get(key)
        if task is None:
            task = self._making[key] = asyncio.create_task(self._make(key, make, times))
            task.add_done_callback(retrieve_error)  # its callers may be gone by then
        return await asyncio.shield(task)

    async def _make(self, key: K, make: Callable[[], Awaitable[V]], times: float) -> V:
        began = monotonic()
        try:
            value = await make()
        finally:
            del self._making[key]
        return self.put(key, value, min(self._seconds, times * max(monotonic() - began, 1e-9)))

    def put(self, key: K, value: V, seconds: float | None = None) -> V:
        if len(self._values) >= MOST:
            self._values.clear()
        self._values[key] = monotonic() + (self._seconds if seconds is None else seconds), value
        return value

    def clear(self) -> None:
        self._values.clear()
