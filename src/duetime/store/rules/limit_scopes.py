"""What a claim needs to know, and which limits apply to a run: the same for every store."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import IntEnum
from typing import Any, NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import QuotaExceeded
from duetime.ids import show
from duetime.model.job import Options
from duetime.model.lane import LaneKey
from duetime.model.limits import Candidate, LimitKind, LimitState, Scope, Terms, problem_of, scopes_of_run
from duetime.model.suspicion import LostCount, Suspicion

log = logging.getLogger("duetime.store")

_PEEK = 500
_PEEK_AT_LEAST = 20
MOVED_AT_ONCE = 1000
"""How many runs of a wait queue get new moments at a time."""
RELEASED_AT_ONCE = 100_000
"""How many runs leave a wait queue in one transaction."""
ROUNDS = 20
"""How often a claim looks again when all runs that it saw had to leave their lane."""
LEAVE_AT_LEAST, LEAVE_AT_MOST = timedelta(seconds=1), timedelta(minutes=1)
"""How long a run is hidden after a node could not read its limits: a quarter of its lateness, within these bounds.
Nodes that can read them get it soon, and the others do not spend their time on it."""
_LOGGED_AT_MOST = 1000


class RuleKind(IntEnum):
    """Kinds of rows that the statement `rules` returns, beside those of `LimitKind`."""

    WEIGHT = 0
    SUSPECT_TASK = 9
    SUSPECT_JOB = 10
    STREAMS = 11


def lanes_are_used_up(most: int) -> QuotaExceeded:
    return too_many_lanes(
        f"the tenant has used all of its {most} lanes within a day: a lane is a queue, a priority and a task,"
        " or the host of a call"
    )


def too_many_lanes(problem: str) -> QuotaExceeded:
    """The error for new work that needs one more lane than a tenant may use."""
    return QuotaExceeded(
        problem,
        remedy="use fewer names of queues, tasks and hosts, wait a day, or let the operator raise lanes_per_tenant",
    )


class Rules(msgspec.Struct, frozen=True):
    """Tenants' weights, limits and suspects; at most half a second old."""

    weights: Mapping[int, int] = {}
    """The weights of tenants that are not 100."""
    scopes: frozenset[Scope] = frozenset()
    """The limits that are set, of tenants, queues and targets."""
    suspicion: Suspicion = Suspicion()
    has_streams: bool = False
    """Whether there are stream queues, or were a short time ago."""

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> "Rules":
        weights, scopes, losses, has_streams = {}, set(), [], False
        for kind, tenant_id, name, number, age in rows:
            if kind == RuleKind.WEIGHT:
                weights[tenant_id] = number
            elif kind in (RuleKind.SUSPECT_TASK, RuleKind.SUSPECT_JOB):
                losses.append(LostCount((tenant_id, name), number, age, kind == RuleKind.SUSPECT_JOB))
            elif kind == RuleKind.STREAMS:
                has_streams = True
            else:
                scopes.add(Scope(tenant_id, LimitKind(kind), name))
        return cls(weights, frozenset(scopes), Suspicion.of(losses) if losses else Suspicion(), has_streams)

    def is_set(self, scope: Scope) -> bool:
        return scope in self.scopes

    def is_limited(self, key: LaneKey) -> bool:
        """Whether a claim from this lane must lock limits."""
        if key.keyed:
            return True
        return bool(self.scopes) and any(
            scope in self.scopes for scope in (*shared_scopes(key), Scope(key.tenant_id, LimitKind.TARGET, key.task))
        )


def depth_of_peek(room: int, again: int) -> int:
    """How many runs to read for so much room: some of them may have to leave their lane because of their keys. More on
    the round `again`, when all runs of the last round had to."""
    return min(_PEEK, max(_PEEK_AT_LEAST, 4 * room) << again)


def shared_scopes(key: LaneKey) -> tuple[Scope, ...]:
    """The limits that apply to every run of a lane, if they are set."""
    shared = (Scope(key.tenant_id, LimitKind.TENANT, ""), Scope(key.tenant_id, LimitKind.QUEUE, key.queue))
    return shared if key.keyed else (*shared, Scope(key.tenant_id, LimitKind.TARGET, key.task))


def run_scopes(key: LaneKey, options: Options, rules: Rules) -> dict[Scope, Terms]:
    """The limits that apply to a run because of its own keys, and of its target's breaker if that is not closed."""
    scopes = scopes_of_run(key.tenant_id, options)
    target = Scope(key.tenant_id, LimitKind.TARGET, options.breaker_key or key.task)
    if rules.is_set(target):
        scopes[target] = Terms()
    return scopes


class Stepped(NamedTuple):
    """A breaker's step: the limit by which it lets runs through, and how many runs have left its wait queue."""

    limit_id: int
    left: int
    has_rate: bool

    @property
    def has_more(self) -> bool:
        """Whether more runs may wait for a rate that was removed; under a new rate they wait for their moments."""
        return not self.has_rate and self.left >= RELEASED_AT_ONCE


class Said:
    """What the runs that a claim has read say about the limits of their keys."""

    def __init__(self) -> None:
        self.terms: dict[Scope, Terms] = {}
        self._before: dict[Scope, Terms] = {}
        """The same of runs that an earlier claim has read and put off."""

    def hear(self, scopes: Mapping[Scope, Terms], *, again: bool) -> None:
        if not again:
            self.terms |= scopes
            return
        self._before |= scopes
        for scope in scopes:
            self.terms.setdefault(scope, Terms())

    def forgotten(self, states: Mapping[Scope, LimitState]) -> dict[Scope, Terms]:
        """The terms that must be stored again, because the limit was removed in the meantime."""
        return {
            scope: terms
            for scope, terms in self._before.items()
            if any(terms) and states[scope].is_blank and not states[scope].is_busy
        }


_logged: set[str] = set()


def why_left(run_id: UUID, options: Options) -> str | None:
    """Why this node leaves a run with keys to other nodes; None: it can apply the limits. Each reason is logged only
    for the first run."""
    problem = problem_of(options)
    if problem is None:
        return None
    message = f"it waits for a node of a newer release: {problem}"
    if message not in _logged:
        if len(_logged) >= _LOGGED_AT_MOST:
            _logged.clear()
        _logged.add(message)
        log.warning("%s: %s", show("run", run_id), message)
    return message


def candidate(run_id: UUID, put_off: bool, scopes: Mapping[Scope, Terms]) -> Candidate:
    return Candidate(run_id, put_off, tuple(scopes))
