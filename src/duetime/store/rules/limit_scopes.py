"""What has to be known before claiming, and which limits a run is under: the same for every store."""

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
from duetime.model.limits import Book, Candidate, LimitKind, Scope, Terms, problem_of, scopes_of_run
from duetime.model.suspicion import Losses, Suspicion

log = logging.getLogger("duetime.store")

_PEEK = 500
_PEEK_AT_LEAST = 20
LINE = 1000
"""How many of a line are given other moments at a time."""
LEFT_AT_ONCE = 100_000
"""How many leave a line in one transaction."""
ROUNDS = 20
"""How often a claim looks again, when all that it saw had to leave its lane."""
LEAVE_AT_LEAST, LEAVE_AT_MOST = timedelta(seconds=1), timedelta(minutes=1)
"""How long no node looks at a run whose limits a node could not read: a quarter of the time that it is late, within
these bounds. Nodes that can read them get their turn soon, and no node spends its time on what it cannot start."""
_LOGGED_AT_MOST = 1000


class RuleKind(IntEnum):
    """Kinds of rows that the statement `rules` returns, beside those of `LimitKind`."""

    WEIGHT = 0
    SUSPECT_TASK = 9
    SUSPECT_JOB = 10


def lanes_are_used_up(most: int) -> QuotaExceeded:
    return too_many_lanes(
        f"the tenant may use {most} lanes within a day, and has used as many: a lane is a queue, a priority and a task,"
        " or the host of a call"
    )


def too_many_lanes(problem: str) -> QuotaExceeded:
    """The refusal of new work that would take one lane more than a tenant may use."""
    return QuotaExceeded(
        problem,
        remedy="use fewer names of queues, tasks and hosts, wait a day, or let the operator raise lanes_per_tenant",
    )


class Rules(msgspec.Struct, frozen=True):
    """What is known of tenants, limits and suspects; at most half a second old."""

    weights: Mapping[int, int] = {}
    """The weights of tenants, where they are not 100."""
    scopes: frozenset[Scope] = frozenset()
    """The limits that are set, of tenants, queues and targets."""
    suspicion: Suspicion = Suspicion()

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> "Rules":
        weights, scopes, losses = {}, set(), []
        for kind, tenant_id, name, number, age in rows:
            if kind == RuleKind.WEIGHT:
                weights[tenant_id] = number
            elif kind in (RuleKind.SUSPECT_TASK, RuleKind.SUSPECT_JOB):
                losses.append(Losses((tenant_id, name), number, age, kind == RuleKind.SUSPECT_JOB))
            else:
                scopes.add(Scope(tenant_id, LimitKind(kind), name))
        return cls(weights, frozenset(scopes), Suspicion.of(losses) if losses else Suspicion())

    def is_set(self, scope: Scope) -> bool:
        return scope in self.scopes

    def is_limited(self, key: LaneKey) -> bool:
        """Whether a claim from this lane has to hold limits."""
        if key.keyed:
            return True
        return bool(self.scopes) and any(
            scope in self.scopes for scope in (*shared_scopes(key), Scope(key.tenant_id, LimitKind.TARGET, key.task))
        )


def depth_of_peek(room: int, again: int) -> int:
    """How many runs to look at for so much room: some of them may have to leave their lane for their keys. More of
    them `again`, when all that was seen before had to."""
    return min(_PEEK, max(_PEEK_AT_LEAST, 4 * room) << again)


def shared_scopes(key: LaneKey) -> tuple[Scope, ...]:
    """The limits that every run of a lane is under, where they are set."""
    shared = (Scope(key.tenant_id, LimitKind.TENANT, ""), Scope(key.tenant_id, LimitKind.QUEUE, key.queue))
    return shared if key.keyed else (*shared, Scope(key.tenant_id, LimitKind.TARGET, key.task))


def run_scopes(key: LaneKey, options: Options, rules: Rules) -> dict[Scope, Terms]:
    """The limits that a run without a problem is under by its own keys, and by the breaker of what it calls where that
    is not closed."""
    scopes = scopes_of_run(key.tenant_id, options)
    target = Scope(key.tenant_id, LimitKind.TARGET, options.breaker_key or key.task)
    if rules.is_set(target):
        scopes[target] = Terms()
    return scopes


class Stepped(NamedTuple):
    """A step of a breaker that was made: the limit by which it lets runs through, and how many have left its line."""

    limit_id: int
    left: int
    has_rate: bool

    @property
    def has_more(self) -> bool:
        """Whether there may be others who wait for a rate that is no more; with a new one they come in their turn."""
        return not self.has_rate and self.left >= LEFT_AT_ONCE


class Said:
    """What the runs that a claim has looked at say of their keys."""

    def __init__(self) -> None:
        self.terms: dict[Scope, Terms] = {}
        self._before: dict[Scope, Terms] = {}
        """By runs that were put off: they have been looked at before."""

    def hear(self, scopes: Mapping[Scope, Terms], *, again: bool) -> None:
        if not again:
            self.terms |= scopes
            return
        self._before |= scopes
        for scope in scopes:
            self.terms.setdefault(scope, Terms())

    def forgotten(self, books: Mapping[Scope, Book]) -> dict[Scope, Terms]:
        """What has to be said once more, since nobody knows it any more."""
        return {
            scope: terms
            for scope, terms in self._before.items()
            if any(terms) and books[scope].is_blank and not books[scope].is_busy
        }


_logged: set[str] = set()


def why_left(run_id: UUID, options: Options) -> str | None:
    """Why this node leaves a run with keys for other nodes; None: it can keep to the limits. Each reason is logged for
    the first run only."""
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
