"""A time budget for suggestions: finding the known word that was probably meant by an unknown one.

A search takes milliseconds, and one request may contain ten thousand unknown words. All searches of a process together
take a small share of its time; beyond that a word gets no suggestion.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from duetime.clock import monotonic

P = ParamSpec("P")
R = TypeVar("R")

SHARE = 0.05
"""The share of time for searches."""
AT_ONCE = 0.25
"""Seconds that searches may take in a burst."""


class SearchBudget:
    def __init__(self) -> None:
        self._left = AT_ONCE
        self._at = monotonic()

    def search(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """The result of a search; None when searches have used up their time."""
        began = monotonic()
        self._left = min(AT_ONCE, self._left + max(0.0, began - self._at) * SHARE)
        self._at = began
        if self._left <= 0:
            return None
        found = function(*args, **kwargs)
        self._left -= monotonic() - began
        return found


search_budget = SearchBudget()
"""The budget of this process."""
