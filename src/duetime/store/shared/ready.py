"""Announcing that runs became claimable: the only place that gives this hint (`store/protocol/ready.py`)."""

from typing import Protocol

from duetime.store.protocol.store import Hint


class Hints(Protocol):
    def give(self, hint: Hint) -> None: ...


class Ready:
    def __init__(self, hints: Hints) -> None:
        self._hints = hints

    def announce(self, count: int = 1) -> None:
        """Call it after a commit that may have made so many runs claimable. A count of 0 does nothing."""
        if count:
            self._hints.give(Hint.READY)
