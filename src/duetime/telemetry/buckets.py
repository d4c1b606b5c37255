"""Histograms as plain integers, cheap enough for a hot path; converted for Prometheus only when scraped."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T", float, int)

LAGS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 7200.0)
"""Seconds from due to started. The alerts use the bound of one second."""
DURATIONS = (0.001, 0.005, 0.025, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
"""Seconds that an attempt takes."""
TIMINGS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0)
"""Seconds that the database takes for a batch."""
SIZES = (1.0, 2.0, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0)


class Buckets:
    """Counts of values up to each bound, and above the last."""

    __slots__ = ("_microseconds", "bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
        self._microseconds = tuple(round(bound * 1_000_000) for bound in self.bounds)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def add(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def add_all(self, values: list[float]) -> None:
        """Add many values. They are sorted: that is cheaper than a search for each."""
        values.sort()
        self.sum += sum(values)
        self._cut(values, self.bounds)

    def add_microseconds(self, spans: list[int]) -> None:
        """The same for durations in microseconds, where the values are seconds."""
        spans.sort()
        self.sum += sum(spans) / 1_000_000
        self._cut(spans, self._microseconds)

    def _cut(self, values: list[T], bounds: tuple[T, ...]) -> None:
        below = 0
        for place, bound in enumerate(bounds):
            until = bisect_right(values, bound, below)
            if until > below:
                self.counts[place] += until - below
                below = until
            if below == len(values):
                return
        self.counts[-1] += len(values) - below
