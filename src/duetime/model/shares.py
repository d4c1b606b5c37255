"""Fair shares: how many runs to take from which lane. Pure arithmetic; nothing in a lane is ever rewritten for it.

The rule, in this order (docs/fairness.md):

1. *Tenant share*: waiting tenants share the slots by their weights, however many runs each of them has.
2. *Limits*: runs that a limit does not admit are skipped (`model/limits.py`).
3. *Tier share*: inside a tenant HIGH, MEDIUM and LOW share 70 to 25 to 5 while all of them wait; in strict mode the
   higher tier always goes first.
4. *Time*: then the run that became ready first, then the lower id. Exact as far as the look reached; if lanes may hold
   more than was seen, the rest is split evenly among them.

Shares hold over many claims by virtual time tags: each run that is taken advances its tenant's tag by one over its
weight, and the lowest tag goes next. A tenant that returns after a while starts at the current tag: no tenant saves up
a share.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heapreplace

from duetime.model.attempt import Claimed
from duetime.model.claim_plan import Agenda, Group
from duetime.model.lane import Tier

Takes = list[tuple[int, int]]
"""What one claim asks for: lanes, and how many runs of each."""

LOOKED_AT = 1000
"""The maximum number of runs that a look reads, over all lanes."""
TIER_WEIGHTS = {Tier.HIGH: 70, Tier.MEDIUM: 25, Tier.LOW: 5}
DEFAULT_WEIGHT = 100
TURN = 8
"""The maximum number of consecutive runs of a tenant, if many tenants wait."""
_TENANTS_IN_A_CLAIM = 60
"""A large claim serves at least this many tenants, if so many wait."""


def depth_of_look(lanes: int, free: int) -> int:
    """How far to look into each lane: exact for few slots or few lanes. One deeper than needed, to tell a lane that is
    empty after that from one that continues."""
    return max(2, min(free + 1, LOOKED_AT // max(1, lanes)))


class _Turns:
    """Distributes in proportion to weights, over any number of rounds. Each waiting key has a tag, and the lowest goes
    next."""

    __slots__ = ("_last", "_now", "tags")

    def __init__(self) -> None:
        self.tags: dict[int, float] = {}
        self._last: dict[int, float] = {}
        self._now = 0.0

    def enter(self, waiting: Mapping[int, int]) -> None:
        """The keys that wait now, with their weights. The others lose their tags, and return at the then current
        tag."""
        if self.tags.keys() == waiting.keys():
            return
        before = self.tags
        self.tags = {}
        for key, weight in waiting.items():
            self.tags[key] = before.get(key) or max(self._last.get(key, 0.0), self._now) + 1 / weight
        self._last = {key: last for key, last in self._last.items() if last > self._now}

    def take(self, key: int, weight: int, count: int = 1) -> float:
        """Take so many more for this key; returns its next tag."""
        tag = self.tags[key]
        self._now = max(self._now, tag - 1 / weight)
        self._last[key] = tag + (count - 1) / weight
        self.tags[key] = tag + count / weight
        return self.tags[key]

    def give_back(self, key: int, weight: int, count: int) -> None:
        """Return so many of those taken: they did not exist."""
        for tags in (self.tags, self._last):
            if key in tags:
                tags[key] -= count / weight


def _all_fit(tenants: Mapping[int, Mapping[int, Group]], free: int) -> bool:
    """Give all that wait, if that is not more than is free; or what is free to the only group."""
    groups = []
    waiting = 0
    for tiers in tenants.values():
        for group in tiers.values():
            groups.append(group)
            waiting += group.waiting
            if waiting > free and (len(tenants) > 1 or len(tiers) > 1):
                return False
    for group in groups:
        group.given = min(group.waiting, free)
    return True


def _at_once(tenants: int, free: int) -> int:
    """How many runs of one tenant are taken consecutively. If many tenants wait, a claim that serves all of them probes
    the index for each of its runs: it serves fewer tenants, with more runs each. The next claims serve the others."""
    return max(1, min(TURN, free // _TENANTS_IN_A_CLAIM)) if tenants * TURN > free else 1


class Shares:
    """What a claimer remembers, so that shares hold over many claims."""

    def __init__(self, *, strict: bool = False) -> None:
        self.weights: Mapping[int, int] = {}
        """The weights of tenants, where they are not the default."""
        self._strict = strict
        self._tenants: dict[int, _Turns] = {}
        self._tiers: dict[tuple[int, int], _Turns] = {}

    def deal(self, agenda: Agenda, free: Sequence[int]) -> Takes:
        """The takes of one claim: (lane, how many). `free` counts the slots of each place. The taken runs leave the
        agenda; the rest may be taken later."""
        takes: dict[int, int] = {}
        for place, tenants in agenda.places.items():
            if tenants and free[place] > 0:
                agenda.take(place, self._give(place, tenants, free[place]), takes)
        return list(takes.items())

    def settle(self, agenda: Agenda, takes: Takes, claimed: Sequence[Claimed]) -> bool:
        """Whether a claim got everything that it asked for; if not, the difference is returned."""
        if len(claimed) == sum(asked for _, asked in takes):
            return True
        got = Counter(run.lane_id for run in claimed)
        for lane_id, asked in takes:
            if got[lane_id] < asked:
                self.gave_less(agenda, lane_id, asked - got[lane_id])
        return False

    def gave_less(self, agenda: Agenda, lane_id: int, missing: int) -> None:
        """A lane had fewer runs than were taken: they do not count for its tenant."""
        where = agenda.gave_less(lane_id)
        if where is not None:
            place, tenant_id, tier = where
            if place in self._tenants:
                self._tenants[place].give_back(tenant_id, self.weights.get(tenant_id, DEFAULT_WEIGHT), missing)
            if (place, tenant_id) in self._tiers:
                self._tiers[place, tenant_id].give_back(tier, TIER_WEIGHTS[Tier(tier)], missing)

    def _give(self, place: int, tenants: Mapping[int, Mapping[int, Group]], free: int) -> list[int]:
        """Decide how many each group gives; returns the tenants whose groups do."""
        if _all_fit(tenants, free):
            return list(tenants)
        turns = self._tenants.setdefault(place, _Turns())
        turns.enter({tenant_id: self.weights.get(tenant_id, DEFAULT_WEIGHT) for tenant_id in tenants})
        for tenant_id, tiers in tenants.items():
            if len(tiers) > 1 and not self._strict:
                turns_of_tiers = self._tiers.setdefault((place, tenant_id), _Turns())
                turns_of_tiers.enter({tier: TIER_WEIGHTS[Tier(tier)] for tier in tiers})
        line = [(tag, tenant_id) for tenant_id, tag in turns.tags.items()]
        heapify(line)
        at_once = _at_once(len(tenants), free)
        chosen: dict[int, None] = {}
        while free and line:
            _, tenant_id = line[0]
            given = 0
            while given < min(at_once, free) and self._take_one(place, tenant_id, tenants[tenant_id]):
                given += 1
            if given:
                chosen[tenant_id] = None
                weight = self.weights.get(tenant_id, DEFAULT_WEIGHT)
                heapreplace(line, (turns.take(tenant_id, weight, given), tenant_id))
                free -= given
            else:
                heappop(line)
        return list(chosen)

    def _take_one(self, place: int, tenant_id: int, tiers: Mapping[int, Group]) -> bool:
        """Give one slot to a tier of a tenant; false when none of its runs wait any more."""
        waiting = [tier for tier, group in tiers.items() if group.given < group.waiting]
        if not waiting:
            return False
        chosen = min(waiting)
        if len(tiers) > 1 and not self._strict:
            turns = self._tiers[place, tenant_id]
            chosen = min(waiting, key=lambda tier: (turns.tags[tier], tier))
            turns.take(chosen, TIER_WEIGHTS[Tier(chosen)])
        tiers[chosen].given += 1
        return True


_FULL_FOR = 0.05
_FULL_AT_MOST = 0.5
_FULL_AT_LEAST = 0.02


class FullLanes:
    """Lanes whose limit admitted less than was asked for: they are not asked again at once."""

    def __init__(self) -> None:
        self._until: dict[int, float] = {}
        self._for: dict[int, float] = {}

    def __contains__(self, lane_id: int) -> bool:
        return lane_id in self._until

    def learn(self, takes: Takes, claimed: Sequence[Claimed], is_limited: Callable[[int], bool], now: float) -> None:
        """Leave a limited lane that returned less than was asked for alone for a moment."""
        limited = [(lane_id, asked) for lane_id, asked in takes if is_limited(lane_id)]
        if limited:
            got = Counter(run.lane_id for run in claimed)
            for lane_id, asked in limited:
                self.gave(lane_id, asked, got[lane_id], now)

    def gave(self, lane_id: int, asked: int, got: int, now: float) -> None:
        if got >= asked:
            self._for.pop(lane_id, None)
            return
        pause = _FULL_FOR if got else min(_FULL_AT_MOST, 2 * self._for.get(lane_id, _FULL_FOR / 2))
        self._for[lane_id] = pause
        self._until[lane_id] = now + pause

    def freed(self, now: float) -> None:
        """A hint or a freed slot may have made room."""
        for lane_id, until in self._until.items():
            self._until[lane_id] = min(until, now + _FULL_AT_LEAST)

    def until_the_next(self, now: float, most: float) -> float:
        """How long until one of them may be asked again, at most so long."""
        return min(most, max(0.0, min(self._until.values()) - now)) if self._until else most

    def forget(self, now: float) -> None:
        self._until = {lane_id: until for lane_id, until in self._until.items() if until > now}
