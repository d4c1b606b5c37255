"""The ready runs that a look found, to be distributed over one claim or several: a look at many lanes costs more than a
claim.

The plan may be out of date: more runs may be ready, and other workers may have taken some. A claim that returns less
than it asked for corrects it, and so does the next look.
"""

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from heapq import merge
from itertools import islice
from uuid import UUID

from duetime.model.announced import LAST_ID, Announced
from duetime.model.lane import Lane, Look, Trial
from duetime.model.suspicion import Suspicion, TrialRoom

_ENDLESS = 1 << 40
_NO_SUSPICION = Suspicion()
_NOT_ANNOUNCED = Announced()
_DEEP = 1000
_ANY_TIME = datetime(1970, 1, 1, tzinfo=UTC)
_ANY_ID = UUID(int=0)

Seen = list[tuple[datetime, UUID, int]]


class Group:
    """The lanes of one tenant and tier, as far as they were seen."""

    __slots__ = ("_deep", "_seen", "given", "waiting")

    def __init__(self) -> None:
        self._seen: dict[int, Seen] = {}
        self._deep: list[int] = []
        self.waiting = 0
        self.given = 0
        """How many of its runs go into the next claim."""

    def add(self, lane_id: int, seen: Seen, *, deep: bool) -> None:
        self._seen[lane_id] = seen
        if deep:
            self._deep.append(lane_id)
        self._count()

    def drop(self, lane_id: int) -> None:
        """This lane has no more runs."""
        self._seen.pop(lane_id, None)
        self._deep = [deep for deep in self._deep if deep != lane_id]
        self._count()

    def take(self, takes: dict[int, int]) -> bool:
        """Convert the group's share into takes from its lanes. False when the order of the rest is unknown: one of its
        lanes continues beyond the look."""
        left, self.given = self.given, 0
        if not left:
            return True
        if len(self._seen) == 1:
            (lane_id,) = self._seen
            shares = {lane_id: left}
        else:
            shares = self._in_order(left)
        for lane_id, share in shares.items():
            del self._seen[lane_id][:share]
        takes.update(shares)
        self._count()
        return len(self._seen) == 1 or all(self._seen[lane_id] for lane_id in self._deep)

    def _in_order(self, left: int) -> dict[int, int]:
        shares: dict[int, int] = {}
        for _, _, lane_id in islice(merge(*self._seen.values()), left):
            shares[lane_id] = shares.get(lane_id, 0) + 1
            left -= 1
        for position, lane_id in enumerate(self._deep):
            share = -(-left // (len(self._deep) - position))
            if share:
                shares[lane_id] = shares.get(lane_id, 0) + share
                left -= share
        return shares

    def _count(self) -> None:
        self.waiting = _ENDLESS if self._deep else sum(map(len, self._seen.values()))


class Agenda:
    """The ready runs, by place, tenant and tier. Empty groups are removed."""

    def __init__(self) -> None:
        self.places: dict[int, dict[int, dict[int, Group]]] = {}
        self.exact = True
        """Whether the next share goes to the longest waiting runs, in each group."""
        self._where: dict[int, tuple[int, int, int]] = {}

    @classmethod
    def of(
        cls,
        look: Look,
        lanes: Mapping[int, Lane],
        places: Mapping[str, int],
        trial_room: TrialRoom,
        claimed: Collection[UUID] = (),
        suspicion: Suspicion = _NO_SUSPICION,
        announced: Announced = _NOT_ANNOUNCED,
    ) -> "Agenda":
        """The runs that were ready at a look. `places`: where each task runs; `trial_room`: how many untrusted runs may
        start; `claimed`: what was claimed concurrently; `suspicion`: which tasks are not trusted; `announced`: what
        is left to announcements."""
        agenda = cls()
        room = trial_room.copy()
        for sight in look.sights:
            lane_id = sight.lane_id
            if lane_id not in lanes:
                continue  # it fell asleep and has woken since: it is read again before the next look
            key = lanes[lane_id].key
            until = announced.until(lane_id, look.now) if announced.covers(key) else (look.now, LAST_ID)
            seen = [
                (moment, run_id, lane_id)
                for moment, run_id in zip(sight.ready_at, sight.run_ids, strict=True)
                if (moment, run_id) <= until
            ]
            deep = len(seen) >= look.depth
            if claimed:
                seen = [one for one in seen if one[1] not in claimed]
            trial = suspicion.trial(key)
            if trial != Trial.NONE:
                seen, deep = seen[: room.take(trial, (key.tenant_id, key.task), len(seen))], False
            if seen or deep:
                agenda._add(lane_id, (places[key.task], key.tenant_id, key.tier), seen, deep=deep)
        return agenda

    @classmethod
    def of_depths(cls, streams: Iterable[tuple[int, int, int]]) -> "Agenda":
        """The messages in streams, each with its tenant, tier and depth. A stream's position is its lane, and all are
        of one place."""
        agenda = cls()
        for number, (tenant_id, tier, depth) in enumerate(streams):
            seen = [(_ANY_TIME, _ANY_ID, number)] * min(depth, _DEEP)
            agenda._add(number, (0, tenant_id, tier), seen, deep=depth > _DEEP)
        return agenda

    def _add(self, lane_id: int, where: tuple[int, int, int], seen: Seen, *, deep: bool) -> None:
        place, tenant_id, tier = self._where[lane_id] = where
        tiers = self.places.setdefault(place, {}).setdefault(tenant_id, {})
        group = tiers.get(tier)
        if group is None:
            group = tiers[tier] = Group()
        group.add(lane_id, seen, deep=deep)

    def has(self, place: int, least: int = 1) -> bool:
        """Whether so many wait in a place, as far as is known."""
        found = 0
        for tiers in self.places.get(place, {}).values():
            for group in tiers.values():
                found += group.waiting
                if found >= least:
                    return True
        return False

    def take(self, place: int, tenant_ids: Iterable[int], takes: dict[int, int]) -> None:
        """Convert the shares of these tenants into takes from lanes."""
        for tenant_id in tenant_ids:
            for tier, group in sorted(self.places[place][tenant_id].items()):
                self.exact &= group.take(takes)
                self._forget_if_empty(place, tenant_id, tier)

    def gave_less(self, lane_id: int) -> tuple[int, int, int] | None:
        """A lane returned less than it was asked for: it is empty. Its place, tenant and tier, if it is known."""
        where = self._where.pop(lane_id, None)
        if where is not None:
            place, tenant_id, tier = where
            group = self.places[place].get(tenant_id, {}).get(tier)
            if group is not None:
                group.drop(lane_id)
                self._forget_if_empty(*where)
        return where

    def _forget_if_empty(self, place: int, tenant_id: int, tier: int) -> None:
        tenants = self.places[place]
        if not tenants[tenant_id][tier].waiting:
            del tenants[tenant_id][tier]
            if not tenants[tenant_id]:
                del tenants[tenant_id]
