"""Lanes: what claims are made from. A lane holds the runs of one tenant, queue, tier and task.

Whatever decides who goes next is arithmetic on how many to take from which lane. Runs whose worker died go to a trial
lane beside their own, so that a run that kills its workers can be tried without taking others along.
"""

from datetime import datetime
from enum import IntEnum
from uuid import UUID

import msgspec


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
    """It was there when a worker died once: a few at a time, more as they survive."""
    ALONE = 2
    """It was there more than once: one at a time."""


def trial_after(lost: int) -> Trial:
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


class Sight(msgspec.Struct, frozen=True, gc=False):
    """What can be seen at the head of a lane: its first unclaimed runs, in the order in which they are claimed."""

    lane_id: int
    ready_at: tuple[datetime, ...]
    run_ids: tuple[UUID, ...]
