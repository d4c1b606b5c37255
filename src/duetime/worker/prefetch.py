"""How many runs a place may queue in addition to those in progress.

A claim takes a round trip and a commit, in which a short function could run many times. The worker claims ahead as many
runs as the place will complete within a moment, judged by its recent attempts. Time in which the place has no runs does
not count: it would make a slow database look like slow functions.
"""

from collections.abc import Callable

from duetime.clock import monotonic
from duetime.model.job import decode_options
from duetime.worker.running_attempt import Running

_MOMENT = 0.02
_LEAST_COUNTED = 16


class Prefetch:
    def __init__(self, size: int, most: int, claim_ahead: Callable[[int], None]) -> None:
        self._counted_together = max(_LEAST_COUNTED, 2 * size)
        self._most = most
        self._claim_ahead = claim_ahead
        self._count = 0
        self._since = monotonic()
        self._idle_since: float | None = self._since

    def idle(self) -> None:
        """Note that the place has no runs now: the pause does not count for its rate."""
        self._idle_since = monotonic()

    def busy(self) -> None:
        """Note that the place has runs again."""
        if self._idle_since is not None:
            self._since += monotonic() - self._idle_since
            self._idle_since = None

    def ended(self, running: Running) -> None:
        """Count an attempt that has ended."""
        options = running.claimed.options
        if options is not None and decode_options(options).at_most_once:
            # If this worker died, queued runs that run at most once would fail without having started. Keep few of
            # them.
            self.reset()
        else:
            self.plain_ended(1)

    def plain_ended(self, count: int) -> None:
        """Count attempts that have ended, of runs without options."""
        self._count += count
        if self._count >= self._counted_together:
            now = monotonic()
            pace = self._count / max(now - self._since, 1e-6)
            self._count, self._since = 0, now
            self._claim_ahead(min(self._most, int(pace * _MOMENT)))

    def reset(self) -> None:
        """Claim nothing ahead until the rate is known again."""
        self._count, self._since = 0, monotonic()
        if self._idle_since is not None:
            self._idle_since = self._since
        self._claim_ahead(0)
