"""Lists and figures from a replica of the database, as long as it is known how stale it is.

Each node stores observations of the clock in the database (`engine/clock_guard.py`). The last one that has arrived at
the replica bounds its staleness: everything that was committed before it has arrived too. Statistics of the replication
would not do: a replica that is cut off calls itself up to date.

A replica that is too stale, away or slow is not asked. A request that it cannot answer is answered by the primary, also
when the replica says that something does not exist: it may not have arrived.
"""

import asyncio
import logging

from duetime.clock import monotonic
from duetime.errors import DuetimeError, reason_of
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.api")

DEADLINE = 2.0
"""Seconds that the replica has for an answer, before the primary is asked."""
_MEASURE_EVERY = 0.5
_MEASURED_WITHIN = 5.0
_AWAY_FOR = 2.0
"""Seconds until a replica that did not answer is asked again."""


class Replica:
    def __init__(self, store: Store, most: float) -> None:
        """`most`: how many seconds it may be behind."""
        self.store = store
        self._most = most
        self._opened = False
        self._behind = 0.0
        self._measured_at = -_MEASURED_WITHIN
        self._used = True
        """Whether the last measurement allowed its use; for the log."""
        self.loop = Loop("replica", self.tick)

    def stale(self) -> float | None:
        """By how many seconds it may be behind now, at most; None: it must not be used."""
        ago = monotonic() - self._measured_at
        behind = self._behind + ago
        return behind if ago < _MEASURED_WITHIN and behind <= self._most else None

    def failed(self) -> None:
        """It did not answer in time: do not ask it until it was measured again."""
        self._measured_at = -_MEASURED_WITHIN

    async def tick(self) -> float:
        before = monotonic()
        try:
            async with asyncio.timeout(DEADLINE):
                if not self._opened:
                    await self.store.open()
                    self._opened = True
                seen = await self.store.clocks.clock_seen()
        except (DuetimeError, TimeoutError) as error:
            self.failed()
            self._report(f"it does not answer: {reason_of(error)}")
            return _AWAY_FOR
        if seen.seen_at is None:
            return _MEASURE_EVERY
        self._measured_at, self._behind = before, max(0.0, (seen.now - seen.seen_at).total_seconds())
        self._report(None if self._behind <= self._most else f"it is {self._behind:.1f} s behind")
        return _MEASURE_EVERY

    async def close(self) -> None:
        await self.store.close()

    def _report(self, problem: str | None) -> None:
        if self._used and problem is not None:
            log.warning("lists and figures are read from the primary, not from the replica: %s", problem)
        elif not self._used and problem is None:
            log.warning("lists and figures are read from the replica again")
        self._used = problem is None
