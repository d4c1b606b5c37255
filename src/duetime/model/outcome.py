"""What an attempt came to, as values; and what a task may raise or return to say it.

Succeeded(result)    it is done
Failed(failure)      it is not; the retry policy decides what follows
Snoozed(delay)       not now: the same attempt again later, nothing spent
Cancelled(reason)    it shall not be done any more
Skipped(reason)      its time is over, and it was not tried
HandedOver(within)   whoever was called finishes it later, and says so
"""

from datetime import timedelta

import msgspec

from duetime.duration import parse_duration
from duetime.model.failure import Failure


class Succeeded(msgspec.Struct, frozen=True, gc=False):
    result: bytes | None = None


class Failed(msgspec.Struct, frozen=True):
    failure: Failure


class Snoozed(msgspec.Struct, frozen=True):
    delay: timedelta
    reason: str | None = None
    """Where it was not the task that asked for it."""


class Cancelled(msgspec.Struct, frozen=True):
    reason: str


class Skipped(msgspec.Struct, frozen=True):
    """It was not tried at all, and shall not be."""

    reason: str


class HandedOver(msgspec.Struct, frozen=True):
    """Whoever was called finishes it later; it goes on without a worker, for so long at most."""

    within: timedelta


Outcome = Succeeded | Failed | Snoozed | Cancelled | Skipped | HandedOver


class Signal(Exception):
    """What a task may raise or return to say how its attempt ended."""


class RetryAfter(Signal):
    """Failed; try again after this delay instead of the policy's backoff. Spends an attempt."""

    def __init__(self, delay: str | float | timedelta, reason: str = "the task asked to be retried") -> None:
        super().__init__(reason)
        self.delay = parse_duration(delay)
        self.reason = str(reason)


class Snooze(Signal):
    """Not now: run again after this delay, without spending an attempt."""

    def __init__(self, delay: str | float | timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = parse_duration(delay)


class Cancel(Signal):
    """This run is no longer wanted: end it as CANCELLED."""

    def __init__(self, reason: str = "the task cancelled its run") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class GiveUp(Signal):
    """Trying again is of no use: end the run as FAILED now."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)
