"""What a claim needs to know: the lanes that are awake, which of them are paused or full, and the rules. Any number of
planners (`model/planner.py`) share what is read, and choose from it."""

import asyncio
from collections.abc import Iterable, Sequence

from duetime.clock import monotonic
from duetime.model.attempt import Claimed
from duetime.model.lane import LaneKey, Look
from duetime.model.planner import Planner
from duetime.model.shares import FullLanes, Takes, depth_of_look
from duetime.store.protocol.store import Claims
from duetime.store.rules.limit_scopes import Rules
from duetime.store.shared.awake_lanes import LaneFollower

_LANES_EVERY = 0.05
_LONG_AGO = -1e9
_WAKE_AFTER = 0.0005
"""Seconds after a run is ready."""


class KnownLanes:
    def __init__(self, claims: Claims, *, rules_every: float) -> None:
        self._claims = claims
        self._rules_every = rules_every
        self._awake = LaneFollower(claims)
        self._planners: list[Planner] = []
        self._paused: frozenset[int] = frozenset()
        self.rules = Rules()
        self._rules_read_at = _LONG_AGO
        """When the last reading of pauses and rules began."""
        self._rules_doubted = False
        """Whether something has happened since the reading in progress began that asks for another one."""
        self._reading_rules = asyncio.Lock()
        self.read_at = _LONG_AGO
        self.full = FullLanes()
        self.rewinds = 0
        """How often the database was found in an earlier state."""

    def add(self, planner: Planner) -> None:
        """Send this planner the current and all later knowledge."""
        self._planners.append(planner)
        planner.learn_rules(self.rules.weights, self.rules.suspicion)
        self._learned([planner] if planner.learn_lanes(self._awake.by_id.values()) else [])

    def keep(self, planners: Iterable[Planner]) -> None:
        """Remove all other planners."""
        self._planners = list(planners)

    def hint(self) -> None:
        """Read again: a full lane may have room, and a paused queue may have been resumed."""
        self.full.freed(monotonic())
        if self._paused:
            self._doubt_rules()

    @property
    def until_read(self) -> float:
        """The time until lanes may be read again."""
        return max(0.0, self.read_at + _LANES_EVERY - monotonic())

    @property
    def rules_age(self) -> float:
        """Seconds since pauses and rules were read; a huge number if a lane has woken since."""
        return monotonic() - self._rules_read_at

    async def read(self, *, now: bool = False) -> bool:
        """Read which lanes woke or fell asleep, unless that was done a moment ago. True when a planner serves a lane
        that woke."""
        if self.until_read and not now:
            return False
        self.read_at = monotonic()
        woken, asleep, rewound = await self._awake.read()
        if rewound:
            self.rewinds += 1
            self.full = FullLanes()
            self._doubt_rules()
        return self._learned([planner for planner in self._planners if planner.learn_lanes(woken, asleep)])

    async def read_rules(self) -> None:
        """Read pauses, weights, limits and suspects, unless that was done a moment ago. While another caller reads
        them, this waits: a lane that has woken may belong to a queue that is paused."""
        if self.rules_age < self._rules_every:
            return
        async with self._reading_rules:
            if self.rules_age < self._rules_every:
                return
            self._rules_doubted, began = False, monotonic()
            self._paused = await self._claims.paused_lanes()
            self.rules = await self._claims.rules()
            if not self._rules_doubted:
                self._rules_read_at = began
            for planner in self._planners:
                planner.learn_rules(self.rules.weights, self.rules.suspicion)

    async def look(self, planners: Iterable[Planner], room: int) -> Look | None:
        """The runs in those lanes of these planners that are neither paused nor full; None when there is no such
        lane."""
        self.full.forget(monotonic())
        paused, full = self._paused, self.full
        lanes = {
            lane_id: None
            for planner in planners
            for lane_id in planner.lanes_to_look_at()
            if lane_id not in paused and lane_id not in full
        }
        return await self._claims.look(list(lanes), depth_of_look(len(lanes), room)) if lanes else None

    def open_lanes(self, planner: Planner) -> frozenset[int]:
        """The lanes of this planner whose runs may start without care: not paused, not avoided, not on trial."""
        trusted = (lane for lane in planner.lanes_not_avoided() if lane not in self._paused)
        return frozenset(lane for lane in trusted if not self.tried(lane).trial)

    def until_next(self, look: Look | None, most: float) -> float:
        """The time until a look can find more than this one."""
        most = self.full.until_the_next(monotonic(), most)
        next_in = None if look is None else look.next_in
        return most if next_in is None or next_in <= 0 else min(most, next_in + _WAKE_AFTER)

    def learn_what_is_full(self, takes: Takes, claimed: Sequence[Claimed]) -> None:
        """Pause a lane under a limit that gave less than requested for a moment."""
        self.full.learn(takes, claimed, self._is_limited, monotonic())

    async def read_those_of(self, claimed: Sequence[Claimed]) -> None:
        """Read lanes if one of these runs has an unknown lane: another server claimed the run, or the lane fell asleep
        and woke again before it was read."""
        if any(run.lane_id not in self._awake.by_id for run in claimed):
            await self.read(now=True)

    def tried(self, lane_id: int) -> LaneKey:
        """The key of the lane, with the current trial level of its task."""
        return self.rules.suspicion.tried(self._awake.by_id[lane_id].key)

    def _learned(self, planners: Sequence[Planner]) -> bool:
        """Whether any planner has learned of lanes."""
        if planners:
            self._doubt_rules()  # a new lane may belong to a queue that is paused
        return bool(planners)

    def _doubt_rules(self) -> None:
        """Read pauses and rules again before the next look."""
        self._rules_read_at = _LONG_AGO
        self._rules_doubted = True

    def _is_limited(self, lane_id: int) -> bool:
        lane = self._awake.by_id.get(lane_id)
        return lane is not None and self.rules.is_limited(lane.key)
