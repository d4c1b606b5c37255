"""The pruner removes data past its retention, and creates history partitions for the coming days.

Ages are measured by the guard's time, not by the clock: a clock that is wrong for a minute removes nothing.
"""

import logging
from datetime import timedelta

from duetime.engine.clock_guard import ClockGuard
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.pruner")

BATCH = 1000


class Pruner:
    def __init__(
        self,
        store: Store,
        *,
        retention: timedelta,
        dead_letter_retention: timedelta,
        idempotency_retention: timedelta,
        interval: timedelta = timedelta(minutes=1),
        guard: ClockGuard | None = None,
    ) -> None:
        self._store = store
        self._guard = guard or ClockGuard(store)
        self._retention = retention
        self._dead_letter_retention = dead_letter_retention
        self._idempotency_retention = idempotency_retention
        self._interval = interval.total_seconds()

    async def tick(self) -> float:
        removed = await self._store.pruning.prune(
            self._retention,
            self._dead_letter_retention,
            BATCH,
            idempotency_retention=self._idempotency_retention,
            now=await self._guard.trusted_now(),
        )
        if removed:
            log.info("pruned %d rows", removed)
        return 0.1 if removed >= BATCH else self._interval
