"""How many runs a place may have waiting beside those under way.

A claim takes a round trip and a commit, in which short functions could have run many times. What is claimed ahead is
what the place gets done within a moment, by the pace of its last attempts.
"""

from collections.abc import Callable

from duetime.clock import monotonic
from duetime.model.job import decode_options
from duetime.worker.running_attempt import Running

_MOMENT = 0.02
_LEAST_COUNTED = 16


class Pace:
    def __init__(self, size: int, most: int, claim_ahead: Callable[[int], None]) -> None:
        self._counted_together = max(_LEAST_COUNTED, 2 * size)
        self._most = most
        self._claim_ahead = claim_ahead
        self._count = 0
        self._since = monotonic()

    def ended(self, running: Running) -> None:
        """One more attempt is over."""
        options = running.claimed.options
        if options is not None and decode_options(options).at_most_once:
            # If this worker died, those that may run only once would have failed where they waited: few shall.
            self.begin_anew()
        else:
            self.plain_ended(1)

    def plain_ended(self, count: int) -> None:
        """So many more, without options of their own."""
        self._count += count
        if self._count >= self._counted_together:
            now = monotonic()
            pace = self._count / max(now - self._since, 1e-6)
            self._count, self._since = 0, now
            self._claim_ahead(min(self._most, int(pace * _MOMENT)))

    def begin_anew(self) -> None:
        """Claim nothing ahead until the pace is known again."""
        self._count, self._since = 0, monotonic()
        self._claim_ahead(0)
