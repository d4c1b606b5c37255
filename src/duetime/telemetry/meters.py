"""What one process counts: plain numbers that cost a hot path next to nothing. `exposition.py` shows them.

What concerns runs is counted by whoever tells the store, once: a remote worker's claims and completions are counted by
the server that makes them. What a process alone knows (slots, durations, its event loop) it counts for itself.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from duetime.telemetry.buckets import DURATIONS, LAGS, SIZES, TIMINGS, Buckets
from duetime.telemetry.pulse import Pulse

Labelled = Mapping[tuple[str, ...], float]
Gauge = Callable[[], Labelled]
"""What something amounts to right now, by the values of its labels."""


class Work:
    """One kind of batch that the store is asked for: how long it takes, and how much it brings."""

    __slots__ = ("seconds", "sizes")

    def __init__(self) -> None:
        self.seconds = Buckets(TIMINGS)
        self.sizes = Buckets(SIZES)


class Meters:
    def __init__(self) -> None:
        self.due_lag = Buckets(LAGS)
        self.run_duration = Buckets(DURATIONS)
        self.loop_lag = Buckets(TIMINGS)
        self.pulse = Pulse()
        self.work = {name: Work() for name in ("submit", "fire", "claim", "complete")}
        self.runs: Counter[str] = Counter()
        """Ended runs by their end."""
        self.attempts: Counter[tuple[str, ...]] = Counter()
        """Ended attempts by the class of their failure, and the tier of their tenant."""
        self.retries = 0
        self.lease_expirations = 0
        self.fence_rejections = 0
        self.fired = 0
        self.missed = 0
        self.passed_by = 0
        self.canary: Counter[str] = Counter()
        """Canaries by how they ended."""
        self.canary_stages = {stage: Buckets(TIMINGS) for stage in ("start", "complete", "whole")}
        self.canary_succeeded_at = 0.0
        self.gauges: dict[str, Gauge] = {}
        """What is asked for when it is scraped; the names are those of `exposition.GAUGES`."""

    def add_gauge(self, name: str, read: Gauge) -> None:
        """Show this together with what others show under the same name: a process may have two workers."""
        before = self.gauges.get(name)
        self.gauges[name] = read if before is None else lambda: _together(before(), read())


def _together(
    one: Mapping[tuple[str, ...], float], other: Mapping[tuple[str, ...], float]
) -> dict[tuple[str, ...], float]:
    return {labels: one.get(labels, 0.0) + other.get(labels, 0.0) for labels in one.keys() | other.keys()}
