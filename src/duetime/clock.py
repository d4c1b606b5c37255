"""Where time comes from.

The database's clock decides what is due and which lease has expired; a process clock only decides how long to sleep. An
embedded store has no clock of its own, so it gets one of these; a test passes a `ManualClock`.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol


class Clock(Protocol):
    """Returns the time of day, in UTC."""

    def now(self) -> datetime: ...


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        return datetime.now(UTC)


class ManualClock:
    """A clock that moves only when a test moves it."""

    def __init__(self, start: datetime = datetime(2026, 1, 1, tzinfo=UTC)) -> None:
        if start.tzinfo is None:
            raise ValueError("a clock must start at an aware datetime, such as datetime(2026, 1, 1, tzinfo=UTC)")
        self._now = start.astimezone(UTC)

    def now(self) -> datetime:
        return self._now

    def advance(self, *, days: float = 0, hours: float = 0, minutes: float = 0, seconds: float = 0) -> datetime:
        """Move forward and return the new time."""
        self._now += timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
        return self._now

    def move_to(self, moment: datetime) -> datetime:
        """Move to a moment, forward or back."""
        self._now = moment.astimezone(UTC)
        return self._now


_SLEEPLESS = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))
"""On Linux, CLOCK_MONOTONIC stands still while the machine is suspended; on macOS it does not."""


_monotonic: Callable[[], float] = time.monotonic
_elapsed: Callable[[], float] = time.monotonic if _SLEEPLESS is None else partial(time.clock_gettime, _SLEEPLESS)


def monotonic() -> float:
    """Seconds that never go back; only differences are meaningful."""
    return _monotonic()


def elapsed() -> float:
    """The same, and it counts the time in which the machine was suspended: for the age of what was read from others,
    who went on meanwhile."""
    return _elapsed()


@contextmanager
def monotonic_from(source: Callable[[], float], suspended: Callable[[], float] = lambda: 0.0) -> Iterator[None]:
    """Take `monotonic` from another source inside the block: a simulation's time is not the machine's. `suspended` says
    for how long the machine was."""
    global _monotonic, _elapsed
    before, so_far = (_monotonic, _elapsed), _elapsed() - _monotonic()
    _monotonic, _elapsed = source, lambda: source() + so_far + suspended()
    try:
        yield
    finally:
        _monotonic, _elapsed = before
