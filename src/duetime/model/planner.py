"""The planner: how many runs to take from which lane. A worker that claims for itself has one; a server that claims for
remote workers has one for each group of equal workers.

A planner knows the lanes that its workers serve. What a look finds in them becomes an agenda (`claim_plan.py`), shares
deal the agenda out over one claim or several (`shares.py`), and what each claim brought settles both. Runs on trial
are planned only where there is room for them (`suspicion.py`).

`store/shared/known_lanes.py` reads what a planner has to know.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from msgspec.structs import replace

from duetime.clock import monotonic
from duetime.model.announced import Announced
from duetime.model.attempt import Claimed
from duetime.model.claim_plan import Agenda
from duetime.model.lane import Lane, LaneKey, Look, Sight, Trial
from duetime.model.shares import Shares, Takes
from duetime.model.suspicion import IDLE_WORKER_TIMEOUT, Suspicion, TaskOf, TrialRoom
from duetime.model.target import kind_of

_ANNOUNCED_EVERY = 0.5
"""Seconds between looks at lanes whose runs are announced."""


class ByTrust(NamedTuple):
    """A look, divided by how its runs are tried."""

    trusted: Look
    on_trial: Look
    """Suspects, and those that are probed."""
    alone: Look


class Planner:
    def __init__(
        self,
        places: Mapping[str, int],
        queues: Iterable[str] = (),
        tenant_id: int | None = None,
        *,
        strict: bool = False,
        avoids: Callable[[], frozenset[TaskOf]] = frozenset,
    ) -> None:
        """`places` says where each task runs. Without `queues` all queues are served, without `tenant_id` all tenants.
        Lanes of the tasks that `avoids` names are not looked at. With `strict` a higher tier always goes first."""
        self._places = dict(places)
        self._queues = frozenset(queues)
        self._tenant_id = tenant_id
        self._avoids = avoids
        self._avoided: frozenset[TaskOf] = frozenset()
        self._shares = Shares(strict=strict)
        self._suspicion = Suspicion()
        self.lanes: dict[int, Lane] = {}
        """The lanes that are awake and served."""
        self.announced = Announced()
        self._look_at_announced = 0.0
        self.agenda = Agenda()

    def learn_lanes(self, woken: Iterable[Lane], asleep: Iterable[int] = ()) -> bool:
        """Whether some of the lanes that woke are served."""
        for lane_id in asleep:
            self.lanes.pop(lane_id, None)
            self.announced.forget(lane_id)
        found = False
        for lane in woken:
            if self.serves(lane.key):
                self.lanes[lane.id] = lane
                self._places[lane.key.task] = self._places[kind_of(lane.key.task)]
                found = True
        return found

    def serves(self, key: LaneKey) -> bool:
        """Whether runs of such a lane are for these workers."""
        return (
            kind_of(key.task) in self._places
            and (not self._queues or key.queue in self._queues)
            and self._tenant_id in (None, key.tenant_id)
        )

    def places_of(self, lane_ids: Iterable[int]) -> frozenset[int]:
        """Where the runs of these lanes are executed."""
        return frozenset(self._places[self.lanes[lane].key.task] for lane in lane_ids if lane in self.lanes)

    def is_trusted(self, key: LaneKey) -> bool:
        """Whether runs of such a lane are tried without care."""
        return self._suspicion.trial(key) == Trial.NONE

    def learn_rules(self, weights: Mapping[int, int], suspicion: Suspicion) -> None:
        self._shares.weights = weights
        self._suspicion = suspicion

    def lanes_to_look_at(self) -> Collection[int]:
        """Lanes whose runs are announced are looked at twice a second: only runs that no announcement reaches are
        claimed from them."""
        self._avoided = self._avoids()
        lanes = self.lanes_not_avoided()
        if not self.announced.queues:
            return lanes
        now = monotonic()
        if now >= self._look_at_announced:
            self._look_at_announced = now + _ANNOUNCED_EVERY
            return lanes
        return [lane_id for lane_id in lanes if not self.announced.covers(self.lanes[lane_id].key)]

    def lanes_not_avoided(self) -> Collection[int]:
        avoided = self._avoids()
        if not avoided:
            return self.lanes
        keys = ((lane_id, lane.key) for lane_id, lane in self.lanes.items())
        return [lane_id for lane_id, key in keys if (key.tenant_id, key.task) not in avoided]

    @property
    def avoids_others_now(self) -> bool:
        """Whether other tasks are to be avoided than at the last look."""
        return self._avoids() != self._avoided

    def forget_agenda(self) -> None:
        self.agenda = Agenda()

    def plan(self, look: Look, room: TrialRoom, claimed: Collection[UUID] = ()) -> None:
        """Deal out what this look found from now on, but for what was `claimed` beside it."""
        self.agenda = Agenda.of(look, self.lanes, self._places, room, claimed, self._suspicion, self.announced)

    def plan_alone(self, look: Look, *, idle: bool, claimed: Collection[UUID] = ()) -> bool:
        """Where a run has to be tried alone, deal out nothing else: to a worker that is `idle`, or to any worker when
        the run has waited for long. False when there is no such run, or it has to wait for an idle worker."""
        found = self._suspicion.alone(self._seen(look), self.lanes, look.now)
        if not found or not (idle or found[0][1] > IDLE_WORKER_TIMEOUT):
            return False
        self.plan(replace(look, sights=(found[0][0],)), TrialRoom(alone=1), claimed)
        return True

    def by_trust(self, look: Look) -> ByTrust:
        """What of this look is in lanes that are served."""
        sights: dict[int, list[Sight]] = {trial: [] for trial in Trial}
        for sight in self._seen(look):
            sights[self._suspicion.trial(self.lanes[sight.lane_id].key)].append(sight)
        groups = (sights[Trial.NONE], sights[Trial.SUSPECT] + sights[Trial.PROBED], sights[Trial.ALONE])
        return ByTrust(*(replace(look, sights=tuple(group)) for group in groups))

    def deal(self, free: Sequence[int]) -> Takes:
        """The takes of one claim. `free` counts the slots of each place."""
        return self._shares.deal(self.agenda, free)

    def settle(self, takes: Takes, claimed: Sequence[Claimed]) -> bool:
        """Whether a claim brought all that was dealt to it; if not, the difference is put right."""
        return self._shares.settle(self.agenda, takes, claimed)

    def _seen(self, look: Look) -> Iterable[Sight]:
        """A lane that fell asleep since the look is not known any more."""
        return (sight for sight in look.sights if sight.lane_id in self.lanes)
