"""The machine of the simulation: a clock that jumps from event to event, cores that are shared, a log that is flushed.

Time is in microseconds.
"""

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count


class Clock:
    def __init__(self) -> None:
        self.now = 0.0
        self._numbers = count()
        self._events: list[tuple[float, int, Callable[[], None]]] = []

    def after(self, delay: float, then: Callable[[], None]) -> None:
        heapq.heappush(self._events, (self.now + delay, next(self._numbers), then))

    def run(self, until: float) -> None:
        while self._events and self._events[0][0] <= until:
            self.now, _, then = heapq.heappop(self._events)
            then()


class Cores:
    """CPU that threads and sessions share evenly; each uses at most one core at a time. For each that has to wait, all
    need a share more CPU (`crowding`): one that was switched out finds the caches filled by others."""

    def __init__(self, clock: Clock, cores: float, crowding: float = 0.0) -> None:
        self._clock = clock
        self._cores = cores
        self._crowding = crowding
        self._wants: dict[int, tuple[float, Callable[[], None]]] = {}
        self._numbers = count()
        self._since = 0.0
        self._round = 0
        self.used = 0.0

    def run(self, work: float, then: Callable[[], None]) -> None:
        self._advance()
        self._wants[next(self._numbers)] = (max(work, 1e-6), then)
        self._plan()

    def _speed(self) -> float:
        if len(self._wants) <= self._cores:
            return 1.0
        return self._cores / len(self._wants) / (1.0 + self._crowding * (len(self._wants) - self._cores))

    def _advance(self) -> None:
        passed = self._clock.now - self._since
        done = passed * self._speed()
        self._since = self._clock.now
        self.used += passed * min(self._cores, len(self._wants))
        self._wants = {number: (left - done, then) for number, (left, then) in self._wants.items()}

    def _plan(self) -> None:
        """Wake up when the next of them has had what it wants; what was planned before is void."""
        self._round += 1
        if self._wants:
            soonest = min(left for left, _ in self._wants.values())
            self._clock.after(max(0.0, soonest) / self._speed(), partial(self._finish, self._round))

    def _finish(self, planned: int) -> None:
        if planned != self._round:
            return
        self._advance()
        over = [number for number, (left, _) in self._wants.items() if left <= 1e-6]
        thens = [self._wants.pop(number)[1] for number in over]
        for then in thens:
            then()
        self._plan()


class Log:
    """One flush at a time; who comes meanwhile waits for the next one, together with the others."""

    def __init__(self, clock: Clock, flush: float, bandwidth: float | None, bytes_each: float) -> None:
        self._clock, self._flush = clock, flush
        self._each = 0.0 if bandwidth is None else bytes_each / bandwidth * 1e6
        self._waiting: list[Callable[[], None]] = []
        self._pending = 0.0
        self._busy = False

    def commit(self, runs: int, then: Callable[[], None]) -> None:
        self._waiting.append(then)
        self._pending += runs * self._each
        if not self._busy:
            self._start()

    def _start(self) -> None:
        self._busy = True
        served, self._waiting = self._waiting, []
        took, self._pending = self._flush + self._pending, 0.0
        self._clock.after(took, lambda: self._end(served))

    def _end(self, served: list[Callable[[], None]]) -> None:
        self._busy = False
        if self._waiting:
            self._start()
        for then in served:
            then()
