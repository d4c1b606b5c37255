"""How many runs a place with few slots may have waiting beside those under way.

A claim takes a round trip and a commit, in which a short function could have run many times. What is claimed ahead is
what the place gets done within a moment, by the pace of its last attempts; nothing where so many of them took longer
that they would stand in the way of the others.
"""

from collections import deque

_MOMENT = 0.02
_REMEMBERED = 16
_MOST = 200
_LONGEST = 3600.0


class Pace:
    def __init__(self, size: int) -> None:
        self._size = size
        self._most_remembered = max(_REMEMBERED, 2 * size)
        self._recent: deque[float] = deque()
        self._sum = 0.0
        self._long = 0
        """How many of them took longer than the moment."""

    def ahead(self, took: float) -> int:
        """How many, now that one more attempt has taken so many seconds."""
        recent, took = self._recent, min(took, _LONGEST)
        recent.append(took)
        self._sum += took
        self._long += took > _MOMENT
        if len(recent) > self._most_remembered:
            forgotten = recent.popleft()
            self._sum -= forgotten
            self._long -= forgotten > _MOMENT
        if len(recent) < _REMEMBERED or 4 * self._long > self._size:
            return 0
        return min(_MOST, int(self._size * _MOMENT * len(recent) / max(self._sum, 1e-6)))
