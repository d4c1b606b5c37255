"""Breakers: a target that fails is left alone until a few probes succeed. One for each tenant and target.

    CLOSED ──more than half of at least 20 attempts in 30 s failed──► OPEN ──after its pause──► PROBING
       ▲                                                               ▲                          │
       │                                                               └──────a probe failed──────┤
       └──the backlog has had its time──RECOVERING◄──────all probes succeeded─────────────────────┘

While it is not closed its runs wait in their lanes; they are not tried, so they spend nothing. What a breaker lets
through is a limit like any other (`model/limits.py`), so it is exact across all nodes: nothing while it is open, three
a second while it probes, and an even flow while it recovers, so that those who waited do not come all at once.
"""

from datetime import datetime, timedelta
from enum import IntEnum
from math import ceil
from random import Random

import msgspec

from duetime.model.failure import Failure, FailureClass
from duetime.model.limits import Rate

WINDOW = timedelta(seconds=30)
PROBES = 3
RECOVERY = timedelta(seconds=38)
"""How long the backlog is spread over."""
_OF_THE_TARGET = frozenset({FailureClass.TIMEOUT, FailureClass.TARGET_FAILED, FailureClass.NETWORK})
_ERRORS_OF_THE_TARGET = frozenset(
    {"ConnectionError", "TimeoutError", "socket.gaierror", "httpx.TransportError"}
    | {"aiohttp.client_exceptions.ClientConnectionError"}
)
"""What a Python task raises when something that it calls is away."""
_SECOND = timedelta(seconds=1)
_FLOW_STEP = timedelta(milliseconds=400)
"""A backlog is let through in small portions, so that no second sees two large ones. Not too small: each is fetched a
little after its time, and what that costs is not made up for."""
_LEAST_FLOW = 4


class BreakerState(IntEnum):
    """The numbers are stored: never reuse one."""

    CLOSED = 0
    OPEN = 1
    PROBING = 2
    RECOVERING = 3


class BreakerPolicy(msgspec.Struct, frozen=True):
    """When breakers open, and how they close."""

    enabled: bool = True
    least: int = 20
    """Attempts within the window, below which nothing is concluded."""
    share: float = 0.5
    """More than this share of them failed."""
    pause: timedelta = timedelta(seconds=5)
    """How long it stays open the first time; then half as long again each time, up to `longest_pause`."""
    longest_pause: timedelta = timedelta(seconds=6)
    retry_share: float = 0.2
    """Retries stay below this share of the attempts at a target…"""
    retry_floor: int = 10
    """…above so many in a window, which are always allowed."""


DEFAULT_BREAKERS = BreakerPolicy()


class Tally(msgspec.Struct, frozen=True):
    """What attempts at a target came to."""

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
    """How often it has opened since it was closed."""
    tried: int = 0
    failed: int = 0
    retried: int = 0
    """Attempts within the window (while it probes: since then), of which so many failed, and so many were retries."""
    flow: int | None = None
    """How many it lets through in 0.4 seconds, while it recovers."""


class Step(msgspec.Struct, frozen=True):
    """What becomes of a breaker, and what it lets through from now on."""

    state: BreakerState
    until: datetime | None
    trips: int
    running: int | None = None
    rate: Rate | None = None


CLOSE = Step(BreakerState.CLOSED, None, 0)


def is_of_the_target(failure: Failure) -> bool:
    """Whether an attempt failed for reasons of its target: another run would have failed there too."""
    if failure.kind in _OF_THE_TARGET:
        return True
    return failure.kind is FailureClass.ERROR and not _ERRORS_OF_THE_TARGET.isdisjoint(failure.error_types)


def after_attempts(breaker: Breaker, policy: BreakerPolicy, now: datetime, waiting: int) -> Step | None:
    """What follows from what was tried; `waiting` runs stand before the breaker. None: nothing changes."""
    if breaker.state is BreakerState.PROBING:
        if breaker.failed:
            return _open(policy, now, breaker.trips + 1)
        return _flow(now, breaker.trips, waiting, _spread(waiting)) if breaker.tried >= PROBES else None
    if breaker.state is BreakerState.OPEN or breaker.tried < policy.least:
        return None
    return _open(policy, now, breaker.trips + 1) if breaker.failed > policy.share * breaker.tried else None


def after_time(breaker: Breaker, now: datetime, waiting: int) -> Step | None:
    """What follows when its time is over. Whoever still waits then does not come all at once either; but where as many
    come as go, a flow would go on for ever, so it grows until those who wait become fewer."""
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
    """The flow that lets a backlog through in its time."""
    return max(_LEAST_FLOW, ceil(waiting * (_FLOW_STEP / RECOVERY)))


def _flow(now: datetime, trips: int, waiting: int, flow: int) -> Step:
    until = now + waiting / flow * _FLOW_STEP + _SECOND
    return Step(BreakerState.RECOVERING, until, trips, rate=Rate(flow, _FLOW_STEP))


def _waited(breaker: Breaker, flow: int) -> float:
    """How many waited when this flow began: its time was made for them."""
    return 0.0 if breaker.until is None else (breaker.until - breaker.since - _SECOND) / _FLOW_STEP * flow


def retry_delay(tally: Tally, policy: BreakerPolicy, delay: timedelta, random: Random) -> timedelta:
    """How long a retry waits: longer, where a target has had its share of retries."""
    if tally.retried < policy.retry_floor + policy.retry_share * tally.tried:
        return delay
    return delay + WINDOW * random.uniform(0.5, 1.5)
