"""The pruner removes data past its retention, and creates partitions for the coming days.

Ages are measured by the guard's time, not by the clock: a clock that is wrong for a minute removes nothing.

Which carried runs have acted is forgotten by the days in their ids, and only when no stream holds a message that is as
old: a message whose run was forgotten would be refused, and one that is delivered again would act again.
"""

import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta

from duetime.engine.clock_guard import ClockGuard
from duetime.store.protocol.store import Store
from duetime.store.rules.spent_days import ID_MARGIN

log = logging.getLogger("duetime.pruner")

BATCH = 1000
_SPENT_EVERY = timedelta(minutes=10)

OldestMessage = Callable[[], Awaitable[datetime | None]]
"""A moment before which no message was published that any stream still holds; None: this is not known."""


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
        oldest_message: OldestMessage | None = None,
    ) -> None:
        self._store = store
        self._guard = guard or ClockGuard(store)
        self._retention = retention
        self._dead_letter_retention = dead_letter_retention
        self._idempotency_retention = idempotency_retention
        self._interval = interval.total_seconds()
        self._oldest_message = oldest_message
        self._spent_at: datetime | None = None

    async def tick(self) -> float:
        now = await self._guard.trusted_now()
        removed = await self._store.pruning.prune(
            self._retention,
            self._dead_letter_retention,
            BATCH,
            idempotency_retention=self._idempotency_retention,
            now=now,
        )
        if removed:
            log.info("pruned %d rows", removed)
        if self._spent_at is None or abs(now - self._spent_at) >= _SPENT_EVERY:
            self._spent_at = now
            await self._forget_spent(now)
        return 0.1 if removed >= BATCH else self._interval

    async def _forget_spent(self, now: datetime) -> None:
        if await self._store.streams.stream_queues():
            oldest = None if self._oldest_message is None else await self._oldest_message()
        else:
            oldest = now  # no stream holds anything
        if oldest is None:
            return
        days = await self._store.streams.prune_spent(min(now, oldest - ID_MARGIN).date())
        if days:
            log.info("forgot %d days of runs that went through streams", days)
