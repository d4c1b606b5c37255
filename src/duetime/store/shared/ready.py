"""Saying that runs became claimable: the only place that gives the hint for it (`store/protocol/ready.py`)."""

from typing import Protocol

from duetime.store.protocol.store import Hint


class _Hints(Protocol):
    def give(self, hint: Hint) -> None: ...


class Ready:
    def __init__(self, hints: _Hints) -> None:
        self._hints = hints

    def announce(self, count: int = 1) -> None:
        """After a commit: so many runs may be claimable that were not. With a count of 0 it does nothing."""
        if count:
            self._hints.give(Hint.READY)
