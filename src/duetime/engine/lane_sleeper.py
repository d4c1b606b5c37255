"""The lane sleeper puts lanes without runs to sleep, so that claims do not read them."""

from datetime import timedelta

from duetime.clock import monotonic
from duetime.model.lane import LANES_AT_ONCE
from duetime.store.protocol.store import Claims

_SHARE = 0.1
"""The maximum share of time that this takes, however many lanes are awake."""


class LaneSleeper:
    def __init__(self, claims: Claims, *, interval: timedelta = timedelta(seconds=2)) -> None:
        self._claims = claims
        self._interval = interval.total_seconds()

    async def tick(self) -> float:
        began = monotonic()
        rested = await self._claims.tidy_lanes()
        pause = (monotonic() - began) / _SHARE
        return pause if rested >= LANES_AT_ONCE else max(self._interval, pause)
