"""The settler passes the end of a run on to the runs that depend on it. It runs on every node; each end is settled
once.

A hint wakes it when such a run has ended. It also polls.
"""

from datetime import timedelta

from duetime.process.loop import Loop
from duetime.store.protocol.store import Hint, Store

BATCH = 500


class Settler:
    def __init__(self, store: Store, *, interval: timedelta = timedelta(milliseconds=500), batch: int = BATCH) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._batch = batch

    async def tick(self) -> float:
        # Settling cancels runs, whose ends must be settled too.
        return 0.0 if await self._store.graphs.settle(self._batch) else self._interval


def settling(store: Store, *, interval: timedelta) -> Loop:
    """A settler's loop, woken when runs end."""
    loop = Loop("settler", Settler(store, interval=interval).tick, jitter=0.2)
    store.listen(lambda hint: loop.wake() if hint in (Hint.ENDED, Hint.CANCEL) else None)
    return loop
