"""Refused connections, counted by reason and logged at most every ten seconds: an attack must not fill the log."""

import logging
import threading
from collections import Counter

from duetime.clock import monotonic

_LOG_EVERY = 10.0


class Refusals:
    def __init__(self, log: logging.Logger, what: str) -> None:
        """`what` was refused, in words."""
        self._log = log
        self._what = what
        self._counts: Counter[str] = Counter()
        self._log_at = 0.0
        self._lock = threading.Lock()

    def note(self, reason: str, left: int) -> None:
        """One more was refused. `left` are open."""
        now = monotonic()
        with self._lock:
            self._counts[reason] += 1
            if now < self._log_at:
                return
            told = ", ".join(f"{reason}: {count}" for reason, count in sorted(self._counts.items()))
            self._counts.clear()
            self._log_at = now + _LOG_EVERY
        self._log.warning("%s refused since the last such line: %s (%d open)", self._what, told, left)
