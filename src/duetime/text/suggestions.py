"""Time for finding what was probably meant by a word that is not known.

A search takes milliseconds, and one request may hold ten thousand words that each ask for one. All searches of a
process together take a small part of its time; beyond that a word gets no suggestion.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from duetime.clock import monotonic

P = ParamSpec("P")
R = TypeVar("R")

SHARE = 0.05
"""Of the time, for searches."""
AT_ONCE = 0.25
"""Seconds that they may take at once."""


class Patience:
    def __init__(self) -> None:
        self._left = AT_ONCE
        self._at = monotonic()

    def search(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """What a search finds; None where searches have taken too long already."""
        began = monotonic()
        self._left = min(AT_ONCE, self._left + max(0.0, began - self._at) * SHARE)
        self._at = began
        if self._left <= 0:
            return None
        found = function(*args, **kwargs)
        self._left -= monotonic() - began
        return found


patience = Patience()
"""Of this process."""
