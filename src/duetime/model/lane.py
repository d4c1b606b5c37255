"""Lanes: what claims are made from. A lane holds the runs of one tenant, queue, tier and task. It is awake while it has
runs and for a moment after; only lanes that are awake are looked at.

Whatever decides who goes next is arithmetic on how many to take from which lane. Runs whose worker died go to a trial
lane beside their own, so that a run that kills its workers can be tried without taking others along.
"""

from datetime import datetime, timedelta
from enum import IntEnum
from typing import NamedTuple
from uuid import UUID

import msgspec

LANES_PER_TENANT = 10_000
"""How many lanes a tenant may use within a day, unless it is set."""
LANE_IDLE = timedelta(seconds=10)
"""How long a lane stays awake at least."""
LANES_AT_ONCE = 500
"""How many lanes are let fall asleep in one step."""


class Tier(IntEnum):
    """Priority. The numbers are stored and sort as they are claimed."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


_TIERS = frozenset(Tier)


def tier_of(number: int) -> Tier:
    """The tier of a stored row; one that this code does not know shows as the lowest."""
    return Tier(number) if number in _TIERS else Tier.LOW


class Trial(IntEnum):
    """How much a run is trusted."""

    NONE = 0
    """It has never lost a worker."""
    SUSPECT = 1
    """It was there when a worker died: a few at a time, more as they survive."""
    PROBED = 2
    """It was there twice: one at a time, more as they survive."""
    ALONE = 3
    """It was there more often: in a worker that does nothing else."""


def trial_after(lost: int) -> Trial:
    """How a run is tried that has lost so many workers."""
    return Trial(min(lost, Trial.ALONE))


class LaneKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """What makes a lane the one it is."""

    tenant_id: int
    queue: str
    tier: int
    task: str
    trial: int = Trial.NONE
    keyed: bool = False
    """Its runs are under limits of their own, by the keys that each of them names."""

    def on_trial(self, trial: Trial) -> "LaneKey":
        """The lane beside this one, for runs that are not trusted."""
        return LaneKey(self.tenant_id, self.queue, self.tier, self.task, trial, self.keyed)


class Lane(msgspec.Struct, frozen=True, gc=False):
    id: int
    key: LaneKey


class LaneTurn(NamedTuple):
    """A change of lanes: its number, and what tells it from another of that number, should the database go back."""

    number: int
    nonce: int


NO_TURN = LaneTurn(0, 0)


class LaneChanges(NamedTuple):
    """What changed after a turn."""

    turn: LaneTurn
    awake: list[Lane]
    asleep: list[int]
    whole: bool
    """Whether these are all lanes that are awake, and every other is asleep."""


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What can be seen at the head of a lane: its first unclaimed runs, in the order in which they are claimed."""

    lane_id: int
    ready_at: tuple[datetime, ...]
    run_ids: tuple[UUID, ...]


class Look(msgspec.Struct, frozen=True):
    """The heads of lanes at one moment of the store's clock."""

    now: datetime
    sights: tuple[Sight, ...]
    depth: int
    """How far it reached into each lane."""

    @property
    def next_in(self) -> float | None:
        """Seconds until the first of these runs is ready: not above zero when one is; None when there are no runs."""
        soonest = min((sight.ready_at[0] for sight in self.sights), default=None)
        return None if soonest is None else (soonest - self.now).total_seconds()
