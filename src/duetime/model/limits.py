"""Limits: how many runs may run at once, and how many may start in a period; per tenant, queue and key.

Decisions are made while the rows of the limits are locked, so they are exact across all nodes. There is no counter to
go up and down: running runs are counted from the live claims, so nothing can leak. A run whose key is full is *parked*
(it is in no lane until a slot of its key is free). A run whose rate is used up is *put off* (deferred) to its own
moment. Neither blocks others, and neither spends an attempt. A limit that another transaction locks is *busy*: no run
starts under it this time, and none is parked. The deferred runs form the rate's wait queue. If some of them are gone,
or the rate was raised, the next claim that reads the queue reschedules it.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.model.failure import bounded
from duetime.model.job import Options
from duetime.model.name import check_key
from duetime.model.stored_enum import StoredEnum

MOST = 1_000_000
"""The maximum value of a limit."""
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_RATE = re.compile(r"([0-9]{1,7})/([0-9]{0,5})(s|m|h|d)")
_LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
_LATER = 1.02
"""Deferred runs start slightly later than the rate allows, since its windows are counted in steps of a hundredth."""


class LimitKind(StoredEnum):
    """What a limit applies to. The numbers are stored: never reuse one."""

    TENANT = 1
    QUEUE = 2
    KEY = 3
    """A `concurrency_key`."""
    RATE_KEY = 4
    TARGET = 5
    """A breaker: what it lets through while it is not closed."""


class Rate(msgspec.Struct, frozen=True):
    """At most `count` starts in any `period`."""

    count: int
    period: timedelta

    def __str__(self) -> str:
        seconds = int(self.period.total_seconds())
        unit, size = next((unit, size) for unit, size in reversed(_UNITS.items()) if seconds % size == 0)
        return f"{self.count}/{'' if seconds == size else seconds // size}{unit}"


def parse_rate(text: str, field: str = "rate") -> Rate:
    """`100/m`, `5/s`, `10/30s`."""
    found = _RATE.fullmatch(text)
    if found is not None:
        count, many, unit = int(found[1]), int(found[2] or 1), found[3]
        if 1 <= count <= MOST and 1 <= many * _UNITS[unit] <= 7 * 86400:
            return Rate(count, timedelta(seconds=many * _UNITS[unit]))
    raise InvalidInput(f"{text!r} is not a rate", field=field, remedy="such as 100/m, 5/s or 10/30s; at most 7 days")


class QueueLimits(msgspec.Struct, frozen=True, omit_defaults=True):
    """The limits of a queue; None: no limit."""

    running: int | None = None
    rate: Rate | None = None


NO_QUEUE_LIMITS = QueueLimits()


def check_running(running: int, field: str = "running") -> int:
    if not 1 <= running <= MOST:
        raise InvalidInput(
            f"{running} is not a limit", field=field, remedy=f"1 to {MOST:,}; to stop the queue, pause it"
        )
    return running


class Scope(NamedTuple):
    """What identifies a limit."""

    tenant_id: int
    kind: LimitKind
    name: str


class Terms(NamedTuple):
    """The values that a job sets for a key; None: unchanged. The run that arrived last determines them. A deferred run
    has set them when it arrived, and sets them again only if the limit was forgotten since."""

    running: int | None = None
    rate: int | None = None
    period: timedelta | None = None


def problem_of(options: Options) -> str | None:
    """Why this release cannot apply the limits that a run names; None: it can. A newer release may understand them."""
    try:
        for field in ("concurrency_key", "rate_key", "breaker_key"):
            key = getattr(options, field)
            if key is not None:
                check_key(key, field)
        if options.concurrency_key is not None:
            check_running(options.concurrency, "concurrency")
        if options.rate_key is not None and options.rate is not None:
            parse_rate(options.rate)
    except InvalidInput as error:
        return bounded(f"its limits cannot be read: {error}", 400)
    return None


def scopes_of_run(tenant_id: int, options: Options) -> dict[Scope, Terms]:
    """The limits of a valid run by its own keys."""
    found: dict[Scope, Terms] = {}
    if options.concurrency_key is not None:
        found[Scope(tenant_id, LimitKind.KEY, options.concurrency_key)] = Terms(running=options.concurrency)
    if options.rate_key is not None and options.rate is not None:
        rate = parse_rate(options.rate)
        found[Scope(tenant_id, LimitKind.RATE_KEY, options.rate_key)] = Terms(rate=rate.count, period=rate.period)
    return found


class RateQueue(NamedTuple):
    """The wait queue of a rate: deferred runs, each with its own moment."""

    is_due: bool = False
    """Whether the moment of some has come."""
    first_at: datetime | None = None
    """The first moment in the future."""
    last_at: datetime | None = None


EMPTY_QUEUE = RateQueue()


class LimitState:
    """The state of a locked limit: how much room there is, and what was already given away."""

    __slots__ = (
        "counts_running",
        "free_at",
        "interval",
        "is_busy",
        "limit_id",
        "next_at",
        "now",
        "period",
        "queue",
        "rate_room",
        "room",
    )

    def __init__(
        self,
        limit_id: int,
        now: datetime,
        *,
        running: int | None,
        live: int,
        rate: int | None,
        period: timedelta | None,
        started: int,
        free_at: datetime | None,
        queue: RateQueue = EMPTY_QUEUE,
    ) -> None:
        self.limit_id = limit_id
        self.is_busy = False
        """Another transaction locks it: its state is unknown."""
        self.now = now
        self.room = MOST if running is None else max(0, running - live)
        self.counts_running = running is not None
        self.period = None if rate is None else period
        self.rate_room = MOST if rate is None else max(0, rate - started)
        self.interval = period / rate * _LATER if period is not None and rate else timedelta(0)
        self.free_at = free_at or now
        self.set_queue(queue)

    @classmethod
    def busy(cls) -> "LimitState":
        """A limit that another transaction locks."""
        state = cls(0, _LONG_AGO, running=0, live=0, rate=None, period=None, started=0, free_at=None)
        state.is_busy = True
        return state

    @property
    def left(self) -> int:
        return min(self.room, self.rate_room)

    def take(self, count: int) -> None:
        self.room -= count
        self.rate_room -= count

    @property
    def is_blank(self) -> bool:
        """Whether it has no values: none were set, or they were forgotten."""
        return not self.counts_running and self.period is None

    def set_queue(self, queue: RateQueue) -> None:
        """Record the wait queue."""
        self.queue = queue
        self.next_at = None if queue.last_at is None else queue.last_at + self.interval

    def gap(self) -> datetime | None:
        """When the waiting runs could start, if that is earlier than the first of them will."""
        room_at = self.now if self.rate_room > 0 else self.free_at
        if self.queue.first_at is None or self.queue.first_at <= room_at + self.interval:
            return None
        return room_at + self.interval if self.queue.is_due else room_at

    def has_waiting_runs(self) -> bool:
        """Whether other runs wait for this rate by the clock."""
        return self.next_at is not None and self.next_at > self.now

    def put_off(self) -> datetime:
        """The moment for one more run that waits for this rate."""
        at = max(self.next_at or self.free_at, self.free_at)
        self.next_at = at + self.interval
        return at


class Candidate(NamedTuple):
    """A ready run in a lane of runs with keys."""

    run_id: UUID
    put_off: bool
    """Whether it was deferred for its rate before: its moment is now."""
    scopes: tuple[Scope, ...]


class Admission(NamedTuple):
    chosen: list[UUID]
    parked: list[tuple[UUID, int]]
    """Runs and the limits that they wait for."""
    put_off: list[tuple[UUID, int, datetime]]
    """Runs, the limits whose rate they wait for, and their moments."""


def admit(
    candidates: Sequence[Candidate], states: Mapping[Scope, LimitState], lane_scopes: Sequence[Scope], most: int
) -> Admission:
    """Which of a lane's runs may start, in order. A run that cannot start because of its key leaves the lane. A run
    that cannot start because of its tenant or queue stays, and so does everything behind it. A run under a busy limit
    stays too: parked without the limit's lock, it might miss the completion that makes room for it."""
    admission = Admission([], [], [])
    shared = [states[scope] for scope in lane_scopes if scope in states]
    for run in candidates:
        if len(admission.chosen) >= most or any(state.left <= 0 for state in shared):
            break
        own = [states[scope] for scope in run.scopes if scope in states]
        if any(state.is_busy for state in own):
            continue
        full = next((state for state in own if state.room <= 0), None)
        late = next(
            (state for state in own if state.rate_room <= 0 or (state.has_waiting_runs() and not run.put_off)), None
        )
        if full is not None:
            admission.parked.append((run.run_id, full.limit_id))
        elif late is not None:
            admission.put_off.append((run.run_id, late.limit_id, late.put_off()))
        else:
            for state in (*shared, *own):
                state.take(1)
            admission.chosen.append(run.run_id)
    return admission


def room_of(states: Mapping[Scope, LimitState], lane_scopes: Sequence[Scope], most: int) -> int:
    """The maximum number of a lane's runs that may start."""
    return max(0, min([most, *(states[scope].left for scope in lane_scopes if scope in states)]))


def room_for(states: Mapping[Scope, LimitState], lane_scopes: Sequence[Scope], most: int) -> int:
    """How many runs of a lane without keys may start; that many are given away."""
    count = room_of(states, lane_scopes, most)
    give_back(states, lane_scopes, -count)
    return count


def give_back(states: Mapping[Scope, LimitState], lane_scopes: Sequence[Scope], count: int) -> None:
    """A lane had fewer runs than were given to it."""
    for scope in lane_scopes:
        if scope in states:
            states[scope].take(-count)
