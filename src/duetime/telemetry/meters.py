"""The counters of one process: plain numbers that cost a hot path next to nothing. `exposition.py` shows them.

Runs are counted once, by the process that writes to the store: the server counts the claims and completions of remote
workers. Each process counts what only it knows (slots, durations, its event loop).
"""

from collections import Counter
from collections.abc import Callable, Mapping

from duetime.telemetry.buckets import DURATIONS, LAGS, SIZES, TIMINGS, Buckets
from duetime.telemetry.pulse import Pulse

Labelled = Mapping[tuple[str, ...], float]
Gauge = Callable[[], Labelled]
"""The current values, by label values."""


class Work:
    """One kind of batch operation on the store: how long it takes, and how many rows it returns."""

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
        """Ended runs by final state."""
        self.attempts: Counter[tuple[str, ...]] = Counter()
        """Ended attempts by the class of their failure, and the tier of their tenant."""
        self.retries = 0
        self.lease_expirations = 0
        self.fence_rejections = 0
        self.fired = 0
        self.missed = 0
        self.passed_by = 0
        self.landed: Counter[str] = Counter()
        """Carried runs that this process landed, by reason."""
        self.redelivered = 0
        self.stream_refused = 0
        self.source_messages: Counter[str] = Counter()
        """Messages of sources by what became of them."""
        self.canary: Counter[str] = Counter()
        """Canaries by outcome."""
        self.canary_stages = {stage: Buckets(TIMINGS) for stage in ("start", "complete", "whole")}
        self.canary_succeeded_at = 0.0
        self.archive_failures = 0
        """Days that could not be archived, and files that were not whole."""
        self.archive_waiting = 0
        """Days that are due to be archived."""
        self.gauges: dict[str, Gauge] = {}
        """Gauges that are read when scraped; the names are those of `exposition.GAUGES`."""

    def add_gauge(self, name: str, read: Gauge) -> None:
        """Add to what others show under the same name: a process may have two workers."""
        before = self.gauges.get(name)
        self.gauges[name] = read if before is None else lambda: _together(before(), read())


def _together(
    one: Mapping[tuple[str, ...], float], other: Mapping[tuple[str, ...], float]
) -> dict[tuple[str, ...], float]:
    return {labels: one.get(labels, 0.0) + other.get(labels, 0.0) for labels in one.keys() | other.keys()}
