"""The reporter sends the results of attempts at targets to the store, so that breakers can open for all nodes."""

from collections.abc import Awaitable, Callable, Sequence

from duetime.clock import monotonic
from duetime.errors import StoreUnavailable
from duetime.model.breaker import Breaker, BreakerPolicy, Tally
from duetime.model.target_health import Health
from duetime.process.loop import Loop

_QUICK = 0.2
"""Seconds until failures are reported."""
_SLOW = 1.0

Report = Callable[[Sequence[Tally], BreakerPolicy], Awaitable[list[Breaker]]]


class Reporter:
    def __init__(self, report: Report, health: Health, policy: BreakerPolicy) -> None:
        self._report = report
        self._health = health
        self._policy = policy
        self._reported_at = 0.0
        self.loop = Loop("reporter", self.tick)

    async def tick(self) -> float:
        if self._health.has_failures or monotonic() - self._reported_at >= _SLOW:
            self._reported_at = monotonic()
            tallies = self._health.take()
            if not tallies:
                self._health.learn(())
            else:
                try:
                    self._health.learn(await self._report(tallies, self._policy))
                except StoreUnavailable:
                    self._health.put_back(tallies)
                    raise
        return _QUICK
