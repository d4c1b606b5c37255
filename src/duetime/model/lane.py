"""Lanes: claims are made from them. A lane holds the runs of one tenant, queue, tier and task. It is awake while it has
runs and for a moment after. Claims look only at lanes that are awake.

Fairness is arithmetic on how many runs to take from which lane. Runs whose worker died go to a trial lane beside their
own, so that a run that kills its workers can be tried without taking others along.
"""

from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

import msgspec

from duetime.model.stored_enum import StoredEnum

LANES_PER_TENANT = 10_000
"""The default for how many lanes a tenant may use within a day."""
LANE_IDLE = timedelta(seconds=10)
"""The minimum time that a lane stays awake."""
LANES_AT_ONCE = 500
"""How many lanes are put to sleep in one step."""


class Tier(StoredEnum):
    """Priority. The numbers are stored and sort as they are claimed."""

    HIGH = 0
    MEDIUM = 1
    LOW = 2


_TIERS = frozenset(Tier)


def tier_of(number: int) -> Tier:
    """The tier of a stored row; one that this code does not know shows as the lowest."""
    return Tier(number) if number in _TIERS else Tier.LOW


class Trial(StoredEnum):
    """How far a run is trusted."""

    NONE = 0
    """It has never lost a worker."""
    SUSPECT = 1
    """It was in one worker's crash: a few at a time, more as they survive."""
    PROBED = 2
    """It was in two crashes: one at a time, more as they survive."""
    ALONE = 3
    """It was in more crashes: in a worker that does nothing else."""


def trial_after(lost: int) -> Trial:
    """The trial level of a run that has lost this many workers."""
    return Trial(min(lost, Trial.ALONE))


class LaneKey(msgspec.Struct, frozen=True, order=True, gc=False):
    """What identifies a lane."""

    tenant_id: int
    queue: str
    tier: int
    task: str
    trial: int = Trial.NONE
    keyed: bool = False
    """Whether its runs have their own limits, by the keys that each of them names."""

    def on_trial(self, trial: Trial) -> "LaneKey":
        """The lane beside this one, for untrusted runs."""
        return LaneKey(self.tenant_id, self.queue, self.tier, self.task, trial, self.keyed)


class Lane(msgspec.Struct, frozen=True, gc=False):
    id: int
    key: LaneKey


class LaneTurn(NamedTuple):
    """A version of the set of lanes: its number, and a value that distinguishes it from another of that number after
    the database was restored."""

    number: int
    nonce: int


NO_TURN = LaneTurn(0, 0)


class LaneChanges(NamedTuple):
    """What changed after a version."""

    turn: LaneTurn
    awake: list[Lane]
    asleep: list[int]
    whole: bool
    """Whether these are all lanes that are awake, and every other is asleep."""
    rewound: bool = False
    """Whether the database was reset to a state before the version: a lane may have the id of another one now."""


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What a look sees at the head of a lane: its first unclaimed runs in claim order, of which at most the last one is
    not ready yet."""

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
