"""The settler: hands on the ends of runs to those who wait for them. It runs on every node; an end is handed on once.

It is woken when such a run has ended, and looks by itself now and then.
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
        # What was cancelled by settling is to be handed on too.
        return 0.0 if await self._store.settle(self._batch) else self._interval


def settling(store: Store, *, interval: timedelta) -> Loop:
    """A settler's loop, which hears of runs that end."""
    loop = Loop("settler", Settler(store, interval=interval).tick, jitter=0.2)
    store.listen(lambda hint: loop.wake() if hint in (Hint.ENDED, Hint.CANCEL) else None)
    return loop
