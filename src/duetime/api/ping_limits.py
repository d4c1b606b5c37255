"""What keeps pings cheap: a rate for each token, and a memory of tokens that are known.

A ping carries no key. A token that was accepted lately is always looked up; any other counts against the failed
authentications of its address first, so that guessing costs no lookups.
"""

from collections.abc import Callable

from duetime.api.problems import RATE_LIMITED, Problem
from duetime.clock import monotonic

RATE = 1.0
"""Pings a second of one check-in."""
BURST = 20.0
_MOST = 10_000


class PingLimits:
    def __init__(self, on_refusal: Callable[[str], None]) -> None:
        self._on_refusal = on_refusal
        self._levels: dict[bytes, tuple[float, float]] = {}

    def knows(self, token_hash: bytes) -> bool:
        return token_hash in self._levels

    def spend(self, token_hash: bytes) -> None:
        """Count a ping of a known check-in; raises a problem if there were too many."""
        now = monotonic()
        level, at = self._levels.pop(token_hash, (BURST, now))
        level = min(BURST, level + (now - at) * RATE)
        if len(self._levels) >= _MOST:
            del self._levels[next(iter(self._levels))]
        if level < 1.0:
            self._levels[token_hash] = level, now
            self._on_refusal("pings")
            raise Problem(
                RATE_LIMITED,
                f"a check-in may be pinged {RATE:g} times a second",
                remedy="ping at the start and at the end of a run only",
                headers={"retry-after": "1"},
            )
        self._levels[token_hash] = level - 1.0, now
