"""The sweep: a walk over the runs themselves, which finds every running run, whatever the helper tables say.

A claim and its runs change in one transaction, and so do a run that is handed over and its deadline. So a running run
that neither a claim nor a handover lists is a *stray*, at whatever moment it is seen: its claim was closed too early,
or the database went back behind a completion. Nothing else would find it: its concurrency key would stay taken, and a
request to cancel it would go to a worker that does not know it.

The sweep lists strays again, so that everything else finds them: the reaper when their worker is gone, the heartbeat
when it lives. A worker that holds them names their claim. One that does not name it for a lease has lost them: they are
judged, because they may have begun. A number that the worker has used again does not stand for them: they are judged at
once.

The walk also finds waiting runs that have expired: those of queues that no worker serves are claimed by nothing else.

The walk goes over all runs in `PASS` seconds, a stretch at a time, on every node. Where two nodes find the same stray,
one of them lists it.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

from duetime.clock import monotonic
from duetime.model.microseconds import stamp

PASS = 40.0
"""Seconds in which the walk goes over everything; a stray is listed a few seconds after that at the latest."""
SETTLED = timedelta(seconds=5)
"""Runs that have started since are passed over: nearly all of them are over when the walk comes by again."""


class ClaimStanding(IntEnum):
    """How a claim came about. The numbers are stored: never reuse one."""

    CLAIMED = 0
    """Its worker made it."""
    SWEPT = 1
    """The sweep found its runs, which no claim listed."""
    NOT_HELD = 2
    """Its worker lives and does not hold it."""


class Stray(NamedTuple):
    run_id: UUID
    fence: int
    worker_id: UUID
    claim_no: int | None
    """None: it was handed over."""


class Pace:
    """How far each step goes, so that a pass takes its time however often it is asked."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._last: float | None = None

    def step(self, size: int) -> int:
        """How much of `size` to go over now."""
        now = monotonic()
        share = 1 / PASS if self._last is None else min(1.0, (now - self._last) / PASS)
        self._last = now
        return max(self._least, round(size * share) + 1)


REAPER = UUID(int=0)
"""Holds expired runs for the moment in which they end. History does not name it."""


def number_apart(now: datetime) -> int:
    """A number for a claim that no worker chose: below zero, where they do not count."""
    return -stamp(now)


def by_worker(strays: Iterable[Stray]) -> dict[UUID, list[Stray]]:
    found: dict[UUID, list[Stray]] = {}
    for stray in strays:
        found.setdefault(stray.worker_id, []).append(stray)
    return found
