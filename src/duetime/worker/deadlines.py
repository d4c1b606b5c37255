"""One wheel of deadlines for all running attempts: a timer per run would cost more than the run."""

import asyncio
from collections.abc import Callable, Hashable

from duetime.clock import monotonic

_GRAIN = 0.05


class DeadlineWheel:
    """Calls back once for each entry whose time has come; late by one grain at most, never early."""

    def __init__(self, expired: Callable[[Hashable], None]) -> None:
        self._expired = expired
        self._buckets: dict[int, set[Hashable]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, entry: Hashable, seconds: float) -> int:
        """Returns the bucket, which `remove` wants back."""
        bucket = int((monotonic() + seconds) / _GRAIN) + 1
        self._buckets.setdefault(bucket, set()).add(entry)
        if self._timer is None:
            self._arm()
        return bucket

    def remove(self, entry: Hashable, bucket: int) -> None:
        entries = self._buckets.get(bucket)
        if entries is not None:
            entries.discard(entry)
            if not entries:
                del self._buckets[bucket]

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._buckets.clear()

    def _arm(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_GRAIN, self._turn)

    def _turn(self) -> None:
        now = int(monotonic() / _GRAIN)
        self._timer = None
        try:
            for bucket in [bucket for bucket in self._buckets if bucket <= now]:
                for entry in self._buckets.pop(bucket):
                    self._expired(entry)
        finally:
            if self._buckets and self._timer is None:
                self._arm()
