"""A run: one occurrence of a job, due at one time.

     PENDING ──claim──► RUNNING ──succeed──► SUCCEEDED
        ▲ │               │ │ └────fail────► FAILED      (no attempts left: a dead letter)
  unblock │               │ └────cancel────► CANCELLED   (from every state that is not an end)
        │ ▼               └──retry──► RETRYING ──claim──► RUNNING
     BLOCKED              ├──release──► where it waited before, nothing spent
                          └──hand over──► RUNNING still, without its worker's lease, until a deadline of its own

A waiting run has no worker; a running one has exactly one, and a fence that no other claim shares. The state of a live
run is derived from its row, so that claiming and releasing rewrite no indexed column.
"""

from enum import Enum, auto

from duetime.model.stored_enum import StoredEnum


class RunState(StoredEnum):
    """The state of a run. The numbers are stored: never reuse one."""

    PENDING = 0
    BLOCKED = 1
    RUNNING = 2
    RETRYING = 3
    SUCCEEDED = 4
    FAILED = 5
    CANCELLED = 6
    SKIPPED = 7

    @property
    def is_end(self) -> bool:
        return self >= RunState.SUCCEEDED


class WaitsFor(StoredEnum):
    """What a run without a lane waits for. The numbers are stored: never reuse one."""

    NOTHING = 0
    """It has a lane, or is parked beside it."""
    OTHER_RUNS = 1
    """The other runs of its job."""
    PARENTS = 2
    """The jobs that it depends on."""


class Event(Enum):
    """What can happen to a run."""

    CLAIM = auto()
    SUCCEED = auto()
    FAIL = auto()
    RETRY = auto()
    RELEASE = auto()
    CANCEL = auto()
    SKIP = auto()
    BLOCK = auto()
    UNBLOCK = auto()
    HAND_OVER = auto()


_WAITING = (RunState.PENDING, RunState.RETRYING)
REPEATABLE = (RunState.FAILED, RunState.CANCELLED, RunState.SKIPPED)
"""The ends after which a run can be repeated."""

TRANSITIONS: dict[tuple[RunState, Event], tuple[RunState, ...]] = {
    (RunState.PENDING, Event.CLAIM): (RunState.RUNNING,),
    (RunState.PENDING, Event.BLOCK): (RunState.BLOCKED,),
    (RunState.PENDING, Event.SKIP): (RunState.SKIPPED,),
    (RunState.PENDING, Event.CANCEL): (RunState.CANCELLED,),
    (RunState.BLOCKED, Event.UNBLOCK): _WAITING,
    (RunState.BLOCKED, Event.SKIP): (RunState.SKIPPED,),
    (RunState.BLOCKED, Event.CANCEL): (RunState.CANCELLED,),
    (RunState.RUNNING, Event.SUCCEED): (RunState.SUCCEEDED,),
    (RunState.RUNNING, Event.FAIL): (RunState.FAILED,),
    (RunState.RUNNING, Event.RETRY): (RunState.RETRYING,),
    (RunState.RUNNING, Event.RELEASE): _WAITING,
    (RunState.RUNNING, Event.CANCEL): (RunState.CANCELLED,),
    (RunState.RUNNING, Event.SKIP): (RunState.SKIPPED,),
    (RunState.RUNNING, Event.HAND_OVER): (RunState.RUNNING,),
    (RunState.RETRYING, Event.CLAIM): (RunState.RUNNING,),
    (RunState.RETRYING, Event.BLOCK): (RunState.BLOCKED,),
    (RunState.RETRYING, Event.CANCEL): (RunState.CANCELLED,),
}
"""Every transition. A pair that is not here cannot happen; end states have no way out."""


class ImpossibleTransition(AssertionError):
    """A write was about to move a run in a way that is not in the table: a bug, never bad input."""


def after(state: RunState, event: Event, *, attempt: int = 0, lost: int = 0) -> RunState:
    """The state that `event` leads to; `attempt` and `lost` are what the run has spent by then."""
    targets = TRANSITIONS.get((state, event))
    if targets is None:
        raise ImpossibleTransition(f"a run that is {state.name} cannot {event.name.lower()}")
    return targets[0] if len(targets) == 1 else waiting_state(attempt, lost)


def waiting_state(attempt: int, lost: int) -> RunState:
    """A waiting run is RETRYING once it has spent something, and PENDING before."""
    return RunState.RETRYING if attempt or lost else RunState.PENDING


def live_state(*, claimed: bool, has_lane: bool, attempt: int, lost: int) -> RunState:
    """The state of a run that has not ended, derived from its row."""
    if claimed:
        return RunState.RUNNING
    return waiting_state(attempt, lost) if has_lane else RunState.BLOCKED
