"""Runs that an executor has accepted and not started yet, in order.

For short functions, a few runs wait for the next free thread or process. If they wait too long because longer runs came
in between, they are handed back for other workers.

Threads take from here too. The one that takes a run out owns it.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from datetime import timedelta

from duetime.clock import monotonic
from duetime.model.outcome import Cancelled, Snoozed
from duetime.worker.running_attempt import Running

LONGEST_WAIT = 0.25
"""Seconds that a run may wait."""
MOST_AHEAD = 1_000
GIVEN_BACK = Snoozed(timedelta(0))
STOPPED = Cancelled("it was stopped before it started")


class Backlog:
    """`recall` is called before late runs are looked for. It may put runs back that were taken and have not started,
    and returns whether others like them are left."""

    def __init__(
        self,
        is_stuck: Callable[[], bool],
        give_back: Callable[[list[Running]], None],
        recall: Callable[[], bool] = lambda: False,
    ) -> None:
        self._is_stuck = is_stuck
        self._give_back = give_back
        self._recall = recall
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._since: OrderedDict[Running, float] = OrderedDict()
        self._watch: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def add(self, running: Running) -> None:
        with self._lock:
            self._since[running] = monotonic()
        self._begin_to_watch()

    def put_back(self, taken: Sequence[tuple[Running, float]]) -> None:
        """Runs that were taken and have not started, with the moments since when they wait. They come first."""
        with self._lock:
            for running, since in reversed(taken):
                self._since[running] = since
                self._since.move_to_end(running, last=False)
        self._begin_to_watch()

    def take(self) -> Running | None:
        """The next run; None when none waits."""
        with self._lock:
            return self._since.popitem(last=False)[0] if self._since else None

    def take_many(self, most: int) -> list[tuple[Running, float]]:
        """The next runs, with the moments since when they wait."""
        with self._lock:
            return [self._since.popitem(last=False) for _ in range(min(most, len(self._since)))]

    def withdraw(self, running: Running) -> bool:
        """Remove a run. Returns whether it was still waiting."""
        with self._lock:
            return self._since.pop(running, None) is not None

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _check(self) -> None:
        """Hand back the runs that have waited too long."""
        are_left = self._recall()
        enough = monotonic() - LONGEST_WAIT if self._is_stuck() else float("-inf")
        with self._lock:
            late = [running for running, since in self._since.items() if since <= enough]
            for running in late:
                del self._since[running]
        self._watch = None
        if self._since or are_left:
            self._begin_to_watch()
        if late:
            self._give_back(late)

    def _begin_to_watch(self) -> None:
        if self._watch is None:
            self._watch = self._loop.call_later(LONGEST_WAIT, self._check)
