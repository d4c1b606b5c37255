"""What a completion does to its run: the same for every store."""

import msgspec

from duetime.model.attempt import AttemptState, Completion
from duetime.model.failure import FailureClass
from duetime.model.retry import Verdict
from duetime.model.run import Event, RunState, after

_CANCELLED = Verdict(Event.CANCEL)

LOGGED_ATTEMPTS = 100
"""How many attempts that were retried keep their logs: a run can snooze any number of times."""
CANCELLED_BY_REQUEST = "cancelled on request"
REPLACED = "replaced by a later occurrence"


def is_plain(item: Completion) -> bool:
    """Succeeded without result and logs: the fast path."""
    return item.verdict.event is Event.SUCCEED and item.result is None and item.logs is None


def waits_again(item: Completion) -> bool:
    """Whether the run is retried, which the transition table must allow."""
    if item.verdict.delay is None or is_handed_over(item):
        return False
    after(RunState.RUNNING, item.verdict.event)
    return True


def logs_before_last(item: Completion) -> bytes | None:
    """The logs that history keeps for an attempt that is retried."""
    return item.logs if item.fence <= LOGGED_ATTEMPTS else None


def is_handed_over(item: Completion) -> bool:
    """Whether the run continues without its worker."""
    return item.verdict.event is Event.HAND_OVER


def end_state(item: Completion) -> RunState:
    """The state in which the run ends."""
    state = after(RunState.RUNNING, item.verdict.event)
    assert state.is_end, f"{item.verdict.event.name} is no end"
    return state


def as_cancelled(item: Completion) -> Completion:
    """The same attempt of a run whose cancellation was requested: the run ends instead of being retried."""
    return msgspec.structs.replace(
        item,
        verdict=_CANCELLED,
        attempt_state=AttemptState.CANCELLED,
        failure=FailureClass.CANCELLED,
        result=None,
    )


def as_replaced(item: Completion) -> Completion:
    """The end of a run that was stopped for a later occurrence. The reason that a worker gave may be encrypted."""
    if item.verdict.event is not Event.CANCEL:
        return item
    said = item.error or ""
    more = said.removeprefix(CANCELLED_BY_REQUEST) if said.startswith(CANCELLED_BY_REQUEST) else ""
    return msgspec.structs.replace(item, error=REPLACED + more)
