"""The usage counter adds up what tenants have used, from history, so that no run pays for it.

It runs on every node. The pruner counts what it removes, if that was not counted before, so the sums stay exact however
long no node ran.
"""

from datetime import datetime, timedelta

from duetime.clock import monotonic
from duetime.engine.clock_guard import ClockGuard
from duetime.store.protocol.store import Store

_SHARE = 0.02
"""The maximum share of time that counting takes."""
_FORGET_EVERY = timedelta(hours=1)


class UsageCounter:
    def __init__(
        self,
        store: Store,
        *,
        retention: timedelta,
        interval: timedelta = timedelta(minutes=1),
        guard: ClockGuard | None = None,
    ) -> None:
        self._store = store
        self._retention = retention
        self._interval = interval.total_seconds()
        self._guard = guard or ClockGuard(store)
        self._forgot_at: datetime | None = None

    async def tick(self) -> float:
        began = monotonic()
        now = await self._guard.trusted_now()
        more = await self._store.usage_counts.count_usage(now)
        if self._forgot_at is None or abs(now - self._forgot_at) >= _FORGET_EVERY:
            self._forgot_at = now
            await self._store.usage_counts.prune_usage((now - self._retention).date())
        return 0.0 if more else max(self._interval, (monotonic() - began) / _SHARE)
