"""Runs that a place has taken on and not begun yet, the first one first.

Where functions are short, a few runs wait for the next free thread or process. If they wait for longer than they
should, because longer ones came in between, they are given back for others to take.

Threads take from here too: whoever has taken a run out has it, and nobody else.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from datetime import timedelta

from duetime.clock import monotonic
from duetime.model.outcome import Cancelled, Snoozed
from duetime.worker.running_attempt import Running

PATIENCE = 0.25
"""How long a run may wait."""
MOST_AHEAD = 200
GIVEN_BACK = Snoozed(timedelta(0))
STOPPED = Cancelled("it was stopped before it began")


class Waiting:
    def __init__(self, is_stuck: Callable[[], bool], give_back: Callable[[list[Running]], None]) -> None:
        self._is_stuck = is_stuck
        self._give_back = give_back
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._since: OrderedDict[Running, float] = OrderedDict()
        self._watch: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def add(self, running: Running, *, first: bool = False) -> None:
        with self._lock:
            self._since[running] = monotonic()
            if first:
                self._since.move_to_end(running, last=False)
        if self._watch is None:
            self._watch = self._loop.call_later(PATIENCE, self._look)

    def take(self) -> Running | None:
        """The next one; None where none waits any more."""
        with self._lock:
            return self._since.popitem(last=False)[0] if self._since else None

    def withdraw(self, running: Running) -> bool:
        """Whether it waited until now."""
        with self._lock:
            return self._since.pop(running, None) is not None

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    def _look(self) -> None:
        """Give back those that have waited for too long."""
        enough = monotonic() - PATIENCE if self._is_stuck() else float("-inf")
        with self._lock:
            late = [running for running, since in self._since.items() if since <= enough]
            for running in late:
                del self._since[running]
        self._watch = self._loop.call_later(PATIENCE, self._look) if self._since else None
        if late:
            self._give_back(late)
