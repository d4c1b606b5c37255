"""One reader's in-memory copy of the lanes that are awake."""

from typing import NamedTuple

from duetime.model.lane import NO_TURN, Lane
from duetime.store.protocol.store import Claims


class Followed(NamedTuple):
    fresh: list[Lane]
    gone: list[int]
    rewound: bool
    """Whether the database was reset to an earlier state. Then all known lanes are gone, and those there are are
    fresh."""


class LaneFollower:
    def __init__(self, claims: Claims) -> None:
        self._claims = claims
        self._turn = NO_TURN
        self.by_id: dict[int, Lane] = {}

    async def read(self) -> Followed:
        """Read what has changed since the last time."""
        changes = await self._claims.lane_changes(self._turn)
        gone = changes.asleep
        if changes.rewound:
            gone = list(self.by_id)
            self.by_id.clear()
        elif changes.whole:
            awake = {lane.id for lane in changes.awake}
            gone = [lane_id for lane_id in self.by_id if lane_id not in awake]
        fresh = [lane for lane in changes.awake if self.by_id.get(lane.id) != lane]
        for lane_id in gone:
            self.by_id.pop(lane_id, None)
        self.by_id.update((lane.id, lane) for lane in fresh)
        self._turn = changes.turn
        return Followed(fresh, gone, changes.rewound)
