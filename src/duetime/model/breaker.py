"""Circuit breakers: a failing target is not called until a few probes succeed. One for each tenant and target.

    CLOSED ──more than half of at least 20 attempts in 30 s failed──► OPEN ──after its pause──► PROBING
       ▲                                                               ▲                          │
       │                                                               └──────a probe failed──────┤
       └──the backlog has had its time──RECOVERING◄──────all probes succeeded─────────────────────┘

While a breaker is not closed its runs wait in their lanes and spend no attempts. What it lets through is a limit like
any other (`model/limits.py`), so it is exact across all nodes: nothing while it is open, three runs a second while it
probes, and an even flow while it recovers, so that the waiting runs do not all start at once.
"""

from datetime import datetime, timedelta
from math import ceil
from random import Random

import msgspec

from duetime.model.failure import Failure, FailureClass
from duetime.model.limits import Rate
from duetime.model.stored_enum import StoredEnum

WINDOW = timedelta(seconds=30)
PROBES = 3
RECOVERY = timedelta(seconds=38)
"""How long the backlog is spread over."""
_OF_THE_TARGET = frozenset({FailureClass.TIMEOUT, FailureClass.TARGET_FAILED, FailureClass.NETWORK})
_ERRORS_OF_THE_TARGET = frozenset(
    {"ConnectionError", "TimeoutError", "socket.gaierror", "httpx.TransportError"}
    | {"aiohttp.client_exceptions.ClientConnectionError"}
)
"""What a Python task raises when a service that it calls is unavailable."""
_SECOND = timedelta(seconds=1)
_FLOW_STEP = timedelta(milliseconds=400)
"""A backlog is let through in small portions, so that no second gets two large ones. Not too small: each portion is
fetched a little late, and that delay is not made up."""
_LEAST_FLOW = 4


class BreakerState(StoredEnum):
    """The numbers are stored: never reuse one."""

    CLOSED = 0
    OPEN = 1
    PROBING = 2
    RECOVERING = 3


class BreakerPolicy(msgspec.Struct, frozen=True):
    """When breakers open, and how they close."""

    enabled: bool = True
    least: int = 20
    """The minimum number of attempts within the window."""
    share: float = 0.5
    """It opens when more than this share of them failed."""
    pause: timedelta = timedelta(seconds=5)
    """How long it stays open the first time; then half as long again each time, up to `longest_pause`."""
    longest_pause: timedelta = timedelta(seconds=6)
    retry_share: float = 0.2
    """Retries stay below this share of the attempts at a target…"""
    retry_floor: int = 10
    """…above this many in a window, which are always allowed."""


DEFAULT_BREAKERS = BreakerPolicy()


class Tally(msgspec.Struct, frozen=True):
    """The results of attempts at a target."""

    tenant_id: int
    target: str
    tried: int
    failed: int = 0
    retried: int = 0


class Breaker(msgspec.Struct, frozen=True):
    tenant_id: int
    target: str
    state: BreakerState
    since: datetime
    until: datetime | None = None
    trips: int = 0
    """How often it has opened since it was last closed."""
    tried: int = 0
    failed: int = 0
    retried: int = 0
    """Attempts within the window (while it probes: since then): all, failed, and retries."""
    flow: int | None = None
    """How many runs it lets through per 0.4 seconds, while it recovers."""


class Step(msgspec.Struct, frozen=True):
    """The next state of a breaker, and what it lets through from now on."""

    state: BreakerState
    until: datetime | None
    trips: int
    running: int | None = None
    rate: Rate | None = None


CLOSE = Step(BreakerState.CLOSED, None, 0)


def is_of_the_target(failure: Failure) -> bool:
    """Whether the target caused the failure: another run would have failed there too."""
    if failure.kind in _OF_THE_TARGET:
        return True
    return failure.kind is FailureClass.ERROR and not _ERRORS_OF_THE_TARGET.isdisjoint(failure.error_types)


def after_attempts(breaker: Breaker, policy: BreakerPolicy, now: datetime, waiting: int) -> Step | None:
    """The next state after attempts; `waiting` runs wait for the breaker. None: no change."""
    if breaker.state is BreakerState.PROBING:
        if breaker.failed:
            return _open(policy, now, breaker.trips + 1)
        return _flow(now, breaker.trips, waiting, _spread(waiting)) if breaker.tried >= PROBES else None
    if breaker.state is BreakerState.OPEN or breaker.tried < policy.least:
        return None
    return _open(policy, now, breaker.trips + 1) if breaker.failed > policy.share * breaker.tried else None


def after_time(breaker: Breaker, now: datetime, waiting: int) -> Step | None:
    """The next state when its time has passed. Runs that still wait then must not all start at once either. But if as
    many arrive as leave, a constant flow would never end, so it grows until the backlog shrinks."""
    if breaker.state is BreakerState.OPEN:
        return Step(BreakerState.PROBING, None, breaker.trips, PROBES, Rate(PROBES, _SECOND))
    if breaker.state is not BreakerState.RECOVERING:
        return None
    flow = breaker.flow or _LEAST_FLOW
    if waiting <= flow * (_SECOND / _FLOW_STEP):
        return CLOSE
    if waiting > _waited(breaker, flow) / 2:
        flow = max(2 * flow, _spread(waiting))
    return _flow(now, breaker.trips, waiting, flow)


def _open(policy: BreakerPolicy, now: datetime, trips: int) -> Step:
    pause = min(policy.pause * 1.5 ** min(trips - 1, 20), policy.longest_pause)
    return Step(BreakerState.OPEN, now + pause, trips, running=0)


def _spread(waiting: int) -> int:
    """The flow that lets a backlog through in the recovery time."""
    return max(_LEAST_FLOW, ceil(waiting * (_FLOW_STEP / RECOVERY)))


def _flow(now: datetime, trips: int, waiting: int, flow: int) -> Step:
    until = now + waiting / flow * _FLOW_STEP + _SECOND
    return Step(BreakerState.RECOVERING, until, trips, rate=Rate(flow, _FLOW_STEP))


def _waited(breaker: Breaker, flow: int) -> float:
    """How many runs waited when this flow began."""
    return 0.0 if breaker.until is None else (breaker.until - breaker.since - _SECOND) / _FLOW_STEP * flow


def retry_delay(tally: Tally, policy: BreakerPolicy, delay: timedelta, random: Random) -> timedelta:
    """How long a retry waits: longer, if a target has used up its share of retries."""
    if tally.retried < policy.retry_floor + policy.retry_share * tally.tried:
        return delay
    return delay + WINDOW * random.uniform(0.5, 1.5)
