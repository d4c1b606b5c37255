"""Who goes next: how many runs to take from which lane. Pure arithmetic; nothing in a lane is ever rewritten for it.

The order: tier first (HIGH, MEDIUM, LOW), then the time at which a run became ready, then its id. It is exact as far
as the look reached; where a lane may hold more than was seen, what is left is dealt out evenly among such lanes.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from heapq import merge

from duetime.model.lane import Lane, Sight, Trial

LOOKED_AT = 1000
"""How many runs a look may read, over all lanes."""


def depth_of_look(lanes: int, free: int) -> int:
    """How far to look into each lane: exact for few slots or few lanes."""
    return max(1, min(free, LOOKED_AT // max(1, lanes)))


def allot(
    sights: Sequence[Sight],
    lanes: Mapping[int, Lane],
    places: Mapping[str, int],
    free: Sequence[int],
    trial_room: Mapping[int, int],
    now: datetime,
    depth: int,
) -> list[tuple[int, int]]:
    """The takes of one claim: (lane, how many). `free` counts the slots of each place, `places` says where a task
    runs; `trial_room` says how many of each kind of trial may start."""
    left = list(free)
    room = dict(trial_room)
    takes: dict[int, int] = {}
    deeper: list[int] = []
    ready = []
    for sight in sights:
        tier = lanes[sight.lane_id].key.tier
        seen = [
            (tier, moment, run_id, sight.lane_id)
            for moment, run_id in zip(sight.ready_at, sight.run_ids, strict=True)
            if moment <= now
        ]
        if seen:
            ready.append(seen)
            if len(seen) >= depth:
                deeper.append(sight.lane_id)
    for _, _, _, lane_id in merge(*ready):
        _take(lane_id, 1, lanes, places, left, room, takes)
    deeper.sort(key=lambda lane_id: lanes[lane_id].key.tier)
    while deeper:
        tier = lanes[deeper[0]].key.tier
        same = [lane_id for lane_id in deeper if lanes[lane_id].key.tier == tier]
        deeper = deeper[len(same) :]
        for position, lane_id in enumerate(same):
            share = -(-left[places[lanes[lane_id].key.task]] // (len(same) - position))
            _take(lane_id, share, lanes, places, left, room, takes)
    return list(takes.items())


def _take(
    lane_id: int,
    wanted: int,
    lanes: Mapping[int, Lane],
    places: Mapping[str, int],
    left: list[int],
    room: dict[int, int],
    takes: dict[int, int],
) -> None:
    key = lanes[lane_id].key
    place = places[key.task]
    count = min(wanted, left[place])
    if key.trial != Trial.NONE:
        count = min(count, room[key.trial])
        room[key.trial] -= count
    if count > 0:
        left[place] -= count
        takes[lane_id] = takes.get(lane_id, 0) + count
