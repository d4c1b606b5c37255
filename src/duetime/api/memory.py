"""A small memory of what was looked up a moment ago."""

from typing import Generic, TypeVar

from duetime.clock import monotonic

K = TypeVar("K")
V = TypeVar("V")

MOST = 10_000


class Memory(Generic[K, V]):
    """Remembers values for some seconds, and no more than so many of them."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._values: dict[K, tuple[float, V]] = {}

    def look(self, key: K) -> tuple[V] | None:
        """What is remembered, as a tuple of one: it may be None. One look, because what is asked for twice may be
        forgotten in between."""
        found = self._values.get(key)
        return (found[1],) if found is not None and found[0] > monotonic() else None

    def get(self, key: K) -> V | None:
        found = self.look(key)
        return None if found is None else found[0]

    def put(self, key: K, value: V) -> V:
        if len(self._values) >= MOST:
            self._values.clear()
        self._values[key] = monotonic() + self._seconds, value
        return value

    def clear(self) -> None:
        self._values.clear()
