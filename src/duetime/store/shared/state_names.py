"""Names of states in SQL.

A statement says `RunState.SUCCEEDED`, as the code does, and the loader replaces the name by the stored number. All SQL
is lower case, so `Capital.NAME` can only be a state: a name that no enum declares is an error.
"""

import re
from enum import IntEnum

from duetime.model.attempt import AttemptState
from duetime.model.breaker import BreakerState
from duetime.model.event import EventKind
from duetime.model.failure import FailureClass
from duetime.model.job import JobState
from duetime.model.lane import Tier, Trial
from duetime.model.limits import LimitKind
from duetime.model.run import RunState, WaitsFor
from duetime.model.tenant import TenantState
from duetime.store.rules.limit_scopes import RuleKind
from duetime.store.rules.strays import ClaimStanding

_ENUMS: tuple[type[IntEnum], ...] = (
    *(RunState, WaitsFor, AttemptState, FailureClass, JobState, EventKind),
    *(Tier, Trial, LimitKind, RuleKind, TenantState, BreakerState, ClaimStanding),
)
_NUMBERS = {f"{enum.__name__}.{state.name}": str(state.value) for enum in _ENUMS for state in enum}
_NAME = re.compile(r"\b[A-Z][a-z]\w*\.\w+")


def with_numbers(text: str, where: str) -> str:
    """Replace names of states by their stored numbers. Raises `ValueError` for a name that is not declared."""

    def number(match: re.Match[str]) -> str:
        try:
            return _NUMBERS[match[0]]
        except KeyError:
            raise ValueError(f"{where}: {match[0]} is not in an enum that state_names.py lists") from None

    return _NAME.sub(number, text)
