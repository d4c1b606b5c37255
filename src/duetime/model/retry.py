"""When a run is retried: the only place that decides it.

Failed attempts and lost ones are counted separately. A failed attempt waits for an exponential backoff with full
jitter. A lost one (its worker died) is retried at once, but a run that was lost too often ends: it may be what kills
the workers.
"""

from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING, TypeAlias

import msgspec

from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Cancelled, Failed, HandedOver, Outcome, Skipped, Snoozed, Succeeded
from duetime.model.run import Event

if TYPE_CHECKING:
    ErrorName: TypeAlias = str | type[BaseException]
else:
    ErrorName = str  # the stored form: classes have become names by then

LONGEST_BACKOFF = 366 * 86_400.0
"""Seconds: no policy waits longer than a year."""
_NEVER_RETRIED = frozenset({FailureClass.TARGET_REFUSED, FailureClass.GAVE_UP, FailureClass.CANCELLED})


class RetryPolicy(msgspec.Struct, frozen=True, omit_defaults=True):
    """How often, and after how long, a run is retried."""

    retries: int = 3
    """Attempts after the first one."""
    base: float = 5.0
    """Seconds: the bound of the first backoff."""
    factor: float = 2.0
    cap: float = 3600.0
    """Seconds: the maximum backoff."""
    retry_on: tuple[ErrorName, ...] = ()
    """Exception classes, or their names: only these are retried. Empty: all are."""
    give_up_on: tuple[ErrorName, ...] = ()
    """Exception classes, or their names, that end the run at once."""
    lost_retries: int = 3
    """How often a run may lose its worker and still be retried."""

    def backoff(self, failures: int, random: Random) -> timedelta:
        """Full jitter: anywhere from zero to the exponential bound."""
        try:
            bound = self.base * self.factor ** min(failures - 1, 64)
        except OverflowError:
            bound = self.cap
        return timedelta(seconds=random.uniform(0.0, min(bound, self.cap, LONGEST_BACKOFF)))

    def may_retry(self, failure: Failure) -> bool:
        """Whether this kind of failure may be retried."""
        if failure.final or failure.kind in _NEVER_RETRIED or _named(failure, self.give_up_on):
            return False
        return not self.retry_on or not failure.error_types or _named(failure, self.retry_on)


class Verdict(msgspec.Struct, frozen=True, gc=False):
    """What happens to the run now."""

    event: Event
    delay: timedelta | None = None
    """How long it waits, if it is retried; how long it may take, if it is handed over."""
    spent: bool = True
    """Whether the attempt counts against the policy."""


SUCCEED = Verdict(Event.SUCCEED)
_CANCEL = Verdict(Event.CANCEL)
_SKIP = Verdict(Event.SKIP)
_FAIL = Verdict(Event.FAIL)


def decide(outcome: Outcome, policy: RetryPolicy, attempt: int, random: Random) -> Verdict:
    """What follows from the outcome of attempt number `attempt` (the first is 1)."""
    match outcome:
        case Succeeded():
            return SUCCEED
        case Cancelled():
            return _CANCEL
        case Skipped():
            return _SKIP
        case Snoozed(delay):
            return Verdict(Event.RELEASE, delay, spent=False)
        case HandedOver(within):
            return Verdict(Event.HAND_OVER, within)
        case Failed(failure):
            if attempt > policy.retries or not policy.may_retry(failure):
                return _FAIL
            if failure.retry_after is not None:
                return Verdict(Event.RETRY, timedelta(seconds=failure.retry_after))
            return Verdict(Event.RETRY, policy.backoff(attempt, random))


def decide_lost(policy: RetryPolicy, lost: int, *, at_most_once: bool) -> Verdict:
    """What follows when a run's worker is lost; `lost` includes this time."""
    if at_most_once or lost > policy.lost_retries:
        return _FAIL
    return Verdict(Event.RETRY, timedelta(0), spent=False)


def _named(failure: Failure, names: tuple[ErrorName, ...]) -> bool:
    """Names match in full (`package.module.Class`) or by the class alone; base classes count."""
    if not names:
        return False
    return any(kind in names or kind.rpartition(".")[2] in names for kind in failure.error_types)
