"""The sweep walks over the runs themselves, so that it finds every running run, whatever the helper tables say.

A claim and its runs change in one transaction, and so do a run that is handed over and its deadline. So a running run
that neither a claim nor a handover lists is a *stray*, at whatever moment it is seen: its claim was closed too early,
or the database was reset to a state before a completion. Nothing else would find it: its concurrency key would stay
taken, and a cancellation would go to a worker that does not know it.

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
"""The seconds of one pass over all runs. A stray is found at most a few seconds later."""
SETTLED = timedelta(seconds=5)
"""Runs that have started since are skipped: nearly all of them have ended by the next pass."""


class ClaimStanding(IntEnum):
    """The origin of a claim. The numbers are stored: never reuse one."""

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
    """The size of each step, so that a pass takes the same time however often it is called."""

    def __init__(self, least: int) -> None:
        self._least = least
        self._last: float | None = None

    def step(self, size: int) -> int:
        """How many of `size` rows to check now."""
        now = monotonic()
        share = 1 / PASS if self._last is None else min(1.0, (now - self._last) / PASS)
        self._last = now
        return max(self._least, round(size * share) + 1)


REAPER = UUID(int=0)
"""The worker id that holds expired runs while they are ended. History does not show it."""


def number_apart(now: datetime) -> int:
    """A claim number that no worker uses: it is negative."""
    return -stamp(now)


def by_worker(strays: Iterable[Stray]) -> dict[UUID, list[Stray]]:
    found: dict[UUID, list[Stray]] = {}
    for stray in strays:
        found.setdefault(stray.worker_id, []).append(stray)
    return found
