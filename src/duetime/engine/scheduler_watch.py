"""Tells a worker that nothing fires jobs: no server has been up for a while.

A worker with a database connection claims runs, and nothing else: jobs that are due later, schedules and the runs of
lost workers wait until a process with the engine's loops is up. Those processes record that they have read the clock
(`engine/clock_guard.py`) every few seconds.
"""

import logging
from datetime import timedelta

from duetime.clock import monotonic
from duetime.duration import format_duration
from duetime.store.protocol.service import ClockSeen
from duetime.store.protocol.store import Store

log = logging.getLogger("duetime.worker")

SILENT = timedelta(seconds=30)
"""How long no server may have been seen before that is reported: they restart within this time."""
REMEDY = "start a server: duetime server, or duetime up with a worker in it"


class SchedulerWatch:
    def __init__(self, store: Store, *, silence_limit: timedelta = SILENT) -> None:
        self._store = store
        self._silence_limit = silence_limit.total_seconds()
        self._there_at = monotonic()
        self._reported = False

    async def tick(self) -> float:
        silence = silence_of(await self._store.clocks.clock_seen())
        if silence is None:
            self._there_at = monotonic()
            if self._reported:
                log.info("a server is up again: jobs are fired")
            self._reported = False
        elif not self._reported and monotonic() - self._there_at >= self._silence_limit:
            self._reported = True
            log.warning("%s: this worker only executes runs that are due already; %s", silence, REMEDY)
        return SILENT.total_seconds() / 2


def silence_of(seen: ClockSeen) -> str | None:
    """What is missing, in words; None while a server is up."""
    if seen.seen_at is None:
        return "no server has ever been up on this database, so no job is fired and no lost run is retried"
    silent = abs(seen.now - seen.seen_at)
    if silent < SILENT:
        return None
    duration = format_duration(timedelta(seconds=int(silent.total_seconds())))
    return f"no server has been up for {duration}, so no job is fired and no lost run is retried"
