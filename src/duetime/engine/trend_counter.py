"""The trend counter adds up what ended in each minute (`model/trends.py`).

It runs on every node; the first one counts a minute. A minute in which no node ran is missing.
"""

from datetime import timedelta

from duetime.engine.clock_guard import ClockGuard
from duetime.model.trends import MINUTE, SETTLING
from duetime.store.protocol.store import Store


class TrendCounter:
    def __init__(self, store: Store, *, guard: ClockGuard | None = None) -> None:
        self._store = store
        self._guard = guard or ClockGuard(store)

    async def tick(self) -> float:
        now = await self._guard.trusted_now()
        await self._store.trends.count_trends(now)
        begin = now.replace(second=0, microsecond=0) + SETTLING
        return max(1.0, (begin + (MINUTE if now >= begin else timedelta(0)) - now).total_seconds() + 1.0)
