"""The outcomes of an attempt, as values; and the signals that a task may raise or return for them.

Succeeded(result)    it is done
Failed(failure)      it failed; the retry policy decides what follows
Snoozed(delay)       the same attempt again later, nothing spent
Cancelled(reason)    it is no longer wanted
Skipped(reason)      it is too late, and was not attempted
HandedOver(within)   the receiver finishes it later, and reports that
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
    """The reason, if the task did not request it itself."""


class Cancelled(msgspec.Struct, frozen=True):
    reason: str


class Skipped(msgspec.Struct, frozen=True):
    """It was not attempted, and will not be."""

    reason: str


class HandedOver(msgspec.Struct, frozen=True):
    """The receiver finishes it later; it continues without a worker, for at most this long."""

    within: timedelta


Outcome = Succeeded | Failed | Snoozed | Cancelled | Skipped | HandedOver


class Signal(Exception):
    """What a task may raise or return to say how its attempt ended."""


class RetryAfter(Signal):
    """Failed; retry after this delay instead of the policy's backoff. Spends an attempt."""

    def __init__(self, delay: str | float | timedelta, reason: str = "the task asked to be retried") -> None:
        super().__init__(reason)
        self.delay = parse_duration(delay)
        self.reason = str(reason)


class Snooze(Signal):
    """Run again after this delay, without spending an attempt."""

    def __init__(self, delay: str | float | timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = parse_duration(delay)


class Cancel(Signal):
    """This run is no longer wanted: end it as CANCELLED."""

    def __init__(self, reason: str = "the task cancelled its run") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class GiveUp(Signal):
    """A retry is useless: end the run as FAILED now."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = str(reason)
