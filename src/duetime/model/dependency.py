"""Dependencies: what a job waits for, and what happens to it when its parents have ended.

A job that depends on others is BLOCKED until enough of its parents have ended as required. The rule needs only three
numbers (how many parents have not ended, how many ended as required, how many did not), so a parent's end costs the
same however many siblings it has.

                  it runs                                    it can no longer run: `otherwise` decides
    all           when every parent ended as required        as soon as one did not
    any           when the first parent ended as required    when all have ended and none did

`otherwise` is to cancel it at once, or to run it anyway when all its parents have ended.
"""

from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duetime.model import json
from duetime.model.run import RunState
from duetime.model.stored_enum import StoredEnum


class Need(StoredEnum):
    """How many parents must have ended as required. The numbers are stored: never reuse one."""

    ALL = 0
    ANY = 1


class Wanted(StoredEnum):
    """How a parent must have ended. The numbers are stored: never reuse one."""

    SUCCESS = 0
    FINISHED = 1
    FAILURE = 2
    """Only for a job that runs after each run of another."""

    def is_met(self, state: RunState) -> bool:
        match self:
            case Wanted.SUCCESS:
                return state is RunState.SUCCEEDED
            case Wanted.FAILURE:
                return state is RunState.FAILED
            case Wanted.FINISHED:
                return state.is_end


class Otherwise(StoredEnum):
    """What happens to a job whose condition can no longer be met. The numbers are stored: never reuse one."""

    CANCEL = 0
    RUN = 1


class Rule(msgspec.Struct, frozen=True):
    need: Need = Need.ALL
    wanted: Wanted = Wanted.SUCCESS
    otherwise: Otherwise = Otherwise.CANCEL


class DependsOn(msgspec.Struct, frozen=True):
    """The jobs that a job waits for, each once, and the rule."""

    parents: tuple[UUID, ...]
    rule: Rule = Rule()


class Fate(Enum):
    WAIT = "wait"
    RUN = "run"
    CANCEL = "cancel"


class Tally(NamedTuple):
    """How many parents of a job ended in which way."""

    unended: int
    met: int = 0
    unmet: int = 0

    def after(self, rule: Rule, *states: RunState) -> "Tally":
        """The tally after further parents ended."""
        met = sum(rule.wanted.is_met(state) for state in states)
        return Tally(self.unended - len(states), self.met + met, self.unmet + len(states) - met)


def decide(rule: Rule, tally: Tally) -> Fate:
    """What happens to a job with this tally."""
    if rule.need is Need.ANY:
        if tally.met:
            return Fate.RUN
        hopeless = tally.unended == 0
    else:
        if tally.unended == 0 and tally.unmet == 0:
            return Fate.RUN
        hopeless = tally.unmet > 0
    if hopeless and rule.otherwise is Otherwise.CANCEL:
        return Fate.CANCEL
    return Fate.RUN if tally.unended == 0 else Fate.WAIT


class Parent(msgspec.Struct, frozen=True):
    """A parent of a run, and its result."""

    job_id: UUID
    run_id: UUID | None
    name: str | None
    """Its name in the graph that both belong to."""
    task: str | None
    """What it ran. None: as for the state."""
    state: RunState | None
    """None: it has not ended, or its history is past its retention."""
    result: bytes | None = None
    error: str | None = None

    @property
    def value(self) -> Any:
        """What its task returned; None if it has not returned, or if the result was not stored."""
        return json.decode(self.result) if self.result else None
