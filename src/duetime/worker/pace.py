"""How many runs a place with few slots may have waiting beside those under way.

A claim takes a round trip and a commit, in which a short function could have run many times. What is claimed ahead is
what the place gets done within a moment, by the pace of its last attempts; nothing where one of them took longer.
"""

from collections import deque

_MOMENT = 0.02
_REMEMBERED = 16
_MOST = 200


class Pace:
    def __init__(self, size: int) -> None:
        self._size = size
        self._recent: deque[float] = deque(maxlen=max(_REMEMBERED, 2 * size))

    def ahead(self, took: float) -> int:
        """How many, now that one more attempt has taken so many seconds."""
        recent = self._recent
        recent.append(took)
        if len(recent) < _REMEMBERED or max(recent) > _MOMENT:
            return 0
        return min(_MOST, int(self._size * _MOMENT * len(recent) / max(sum(recent), 1e-6)))
