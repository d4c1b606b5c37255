"""A timer wheel for the deadlines of all running attempts: a timer per run would cost more than the run."""

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from duetime.clock import monotonic

_GRAIN = 0.05
"""Seconds from one turn of the wheel to the next."""
_FRESH = -1
"""The bucket of an entry that is not sorted yet."""


class Entry(Protocol):
    """Something with a deadline. The wheel notes in `bucket` where it keeps the entry; None: nowhere."""

    bucket: int | None


E = TypeVar("E", bound=Entry)


class DeadlineWheel(Generic[E]):
    """Calls back once for each expired entry; late by at most two grains, never early.

    A new entry is sorted into its bucket at the wheel's next turn: most are removed before that.
    """

    def __init__(self, expired: Callable[[E], None]) -> None:
        self._expired = expired
        self._fresh: list[tuple[float, E]] = []
        self._buckets: dict[int, set[E]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: E, deadline: float) -> None:
        """`deadline` is on the monotonic clock."""
        entry.bucket = _FRESH
        self._fresh.append((deadline, entry))
        if self._timer is None:
            self._arm()

    def remove(self, entry: E) -> None:
        bucket, entry.bucket = entry.bucket, None
        if bucket is not None and bucket != _FRESH:
            entries = self._buckets[bucket]
            entries.discard(entry)
            if not entries:
                del self._buckets[bucket]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._fresh.clear()
        self._buckets.clear()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_GRAIN, self._turn)

    def _turn(self) -> None:
        now = int(monotonic() / _GRAIN)
        self._timer = None
        fresh, self._fresh = self._fresh, []
        for deadline, entry in fresh:
            if entry.bucket == _FRESH:
                entry.bucket = max(int(deadline / _GRAIN), now) + 1
                self._buckets.setdefault(entry.bucket, set()).add(entry)
        try:
            for bucket in [bucket for bucket in self._buckets if bucket <= now]:
                for entry in self._buckets.pop(bucket):
                    entry.bucket = None
                    self._expired(entry)
        finally:
            if (self._buckets or self._fresh) and self._timer is None:
                self._arm()
