"""Who goes next: shares of tenants and tiers, over one claim and over many."""

from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from uuid import UUID

from duetime.model.claim_plan import Agenda
from duetime.model.lane import Lane, LaneKey, Look, Sight, Tier, Trial
from duetime.model.shares import TURN, FullLanes, Shares
from duetime.model.suspicion import TrialRoom

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
PLACES = {"work": 0, "think": 1}


class World:
    """Lanes with any number of ready runs."""

    def __init__(self, *, strict: bool = False, weights: dict[int, int] | None = None) -> None:
        self.shares = Shares(strict=strict)
        self.shares.weights = weights or {}
        self.lanes: dict[int, Lane] = {}
        self.waiting: dict[int, int] = {}

    def lane(self, waiting: int, tenant: int = 1, tier: Tier = Tier.MEDIUM, task: str = "work", trial: int = 0) -> int:
        lane_id = len(self.lanes) + 1
        self.lanes[lane_id] = Lane(lane_id, LaneKey(tenant, f"queue{lane_id}", tier, task, trial))
        self.waiting[lane_id] = waiting
        return lane_id

    def look(self, depth: int, trials: int = 0, claimed: Collection[UUID] = ()) -> Agenda:
        sights = []
        for lane_id, waiting in self.waiting.items():
            seen = min(depth, waiting)
            moments = tuple(NOW - timedelta(hours=1) + timedelta(seconds=number) for number in range(seen))
            sights.append(Sight(lane_id, moments, tuple(UUID(int=lane_id * 10**6 + number) for number in range(seen))))
        sights = [sight for sight in sights if sight.ready_at]
        room = TrialRoom(suspects=trials, alone=trials)
        return Agenda.of(Look(NOW, tuple(sights), depth), self.lanes, PLACES, room, claimed)

    def claim(self, free: int, depth: int = 1000, trials: int = 0) -> dict[int, int]:
        takes = dict(self.shares.deal(self.look(depth, trials), [free, free]))
        for lane_id, take in takes.items():
            self.waiting[lane_id] = max(0, self.waiting[lane_id] - take)
        return takes


def test_a_single_run_of_another_tenant_is_in_every_claim() -> None:
    world = World()
    crowd, alone = world.lane(10_000, tenant=1), world.lane(1, tenant=2)
    assert world.claim(10) == {crowd: 9, alone: 1}


def test_tenants_share_by_their_weights() -> None:
    world = World(weights={1: 300})
    heavy, light = world.lane(10_000, tenant=1), world.lane(10_000, tenant=2)
    assert world.claim(400) == {heavy: 300, light: 100}


def test_shares_hold_over_claims_of_one_slot() -> None:
    world = World(weights={1: 200})
    lanes = {world.lane(200, tenant=1): 1, world.lane(200, tenant=2): 2}
    got: Counter[int] = Counter()
    for _ in range(300):
        ((lane_id, _),) = world.claim(1).items()
        got[lanes[lane_id]] += 1
    assert got == {1: 200, 2: 100}


def test_whoever_was_away_has_saved_nothing_up() -> None:
    world = World()
    busy = world.lane(1000, tenant=1)
    for _ in range(3):
        world.claim(100)
    late = world.lane(1000, tenant=2)
    takes = world.claim(100)
    assert abs(takes[busy] - takes[late]) <= 1


def test_tiers_share_70_25_5() -> None:
    world = World()
    high, medium, low = (world.lane(10_000, tier=tier) for tier in Tier)
    assert world.claim(100) == {high: 70, medium: 25, low: 5}


def test_the_lowest_tier_is_never_starved_with_one_slot() -> None:
    world = World()
    lanes = {world.lane(200, tier=tier): tier for tier in Tier}
    got: Counter[Tier] = Counter()
    for number in range(200):
        ((lane_id, _),) = world.claim(1).items()
        got[lanes[lane_id]] += 1
        assert number > 0 or lanes[lane_id] is Tier.HIGH
    assert got == {Tier.HIGH: 140, Tier.MEDIUM: 50, Tier.LOW: 10}


def test_a_share_that_nobody_wants_goes_to_the_others() -> None:
    world = World()
    medium, low = world.lane(10_000, tier=Tier.MEDIUM), world.lane(3, tier=Tier.LOW)
    assert world.claim(100) == {medium: 97, low: 3}


def test_strict_mode_takes_the_higher_tier_first() -> None:
    world = World(strict=True)
    high, low = world.lane(60, tier=Tier.HIGH), world.lane(60, tier=Tier.LOW)
    assert world.claim(50) == {high: 50}
    assert world.claim(50) == {high: 10, low: 40}


def test_inside_a_tier_the_run_that_was_ready_first_goes_first() -> None:
    world = World()
    first, second = world.lane(10), world.lane(10)
    assert world.claim(5) == {first: 3, second: 2}


def test_lanes_that_may_hold_more_than_was_seen_share_what_is_left() -> None:
    world = World()
    first, second = world.lane(1000), world.lane(1000)
    assert world.claim(100, depth=10) == {first: 50, second: 50}


def test_each_place_has_slots_of_its_own() -> None:
    world = World()
    work, think = world.lane(100), world.lane(100, task="think")
    assert world.claim(10) == {work: 10, think: 10}


def test_trials_start_as_many_as_there_is_room_for() -> None:
    world = World()
    trusted, suspect = world.lane(2), world.lane(100, trial=Trial.SUSPECT)
    assert world.claim(10, trials=3) == {trusted: 2, suspect: 3}


def test_one_look_is_dealt_out_over_several_claims() -> None:
    world = World()
    deep, short = world.lane(10_000, tenant=1), world.lane(25, tenant=2)
    agenda = world.look(depth=100)
    claims = [dict(world.shares.deal(agenda, [20, 20])) for _ in range(4)]
    assert claims == [{deep: 10, short: 10}, {deep: 10, short: 10}, {deep: 15, short: 5}, {deep: 20}]
    assert agenda.has(0, 1000)
    world.shares.gave_less(agenda, deep, 20)
    assert not agenda.has(0)
    assert world.shares.deal(agenda, [20, 20]) == []


def test_the_order_by_time_holds_over_several_claims() -> None:
    world = World()
    first, second = world.lane(4), world.lane(4)
    agenda = world.look(depth=100)
    claims = [dict(world.shares.deal(agenda, [3, 3])) for _ in range(3)]
    assert claims == [{first: 2, second: 1}, {first: 1, second: 2}, {first: 1, second: 1}]


def test_an_agenda_knows_when_the_order_by_time_is_not_known_any_more() -> None:
    world = World()
    world.lane(10), world.lane(10)
    agenda = world.look(depth=2)
    world.shares.deal(agenda, [2, 2])
    assert agenda.exact
    world.shares.deal(agenda, [1, 1])
    assert not agenda.exact, "its next run may have been ready before those of the other lane that were seen"


def test_what_was_claimed_beside_a_look_is_not_dealt_again() -> None:
    world = World()
    seen, deep = world.lane(3, tenant=1), world.lane(50, tenant=2)
    gone = {UUID(int=lane_id * 10**6 + number) for lane_id in (seen, deep) for number in range(2)}
    agenda = world.look(depth=10, claimed=gone)
    assert dict(world.shares.deal(agenda, [100, 100])) == {seen: 1, deep: 99}


def test_where_many_tenants_wait_each_claim_goes_to_some_of_them_and_all_get_the_same() -> None:
    """A claim that goes to a thousand lanes probes each of them."""
    world = World()
    lanes = [world.lane(10_000, tenant=number) for number in range(1, 501)]
    got: Counter[int] = Counter()
    for _ in range(50):
        takes = world.claim(500, depth=1)
        assert 60 <= len(takes) < 100
        assert max(takes.values()) <= TURN
        got.update(takes)
    assert set(got) == set(lanes)
    assert max(got.values()) - min(got.values()) <= TURN


def crowded(claims: int) -> World:
    """Five hundred tenants that have waited for so many claims; none of them is the first."""
    world = World()
    for number in range(2, 502):
        world.lane(10_000, tenant=number)
    for _ in range(claims):
        world.claim(500, depth=1)
    return world


def test_a_single_run_does_not_wait_behind_many_tenants() -> None:
    world = crowded(claims=3)
    alone = world.lane(1, tenant=1)
    assert alone in world.claim(500, depth=1)


def test_what_a_lane_did_not_have_does_not_count_for_its_tenant() -> None:
    """It was asked for a whole turn, because a look at many lanes does not reach far into each."""
    world = crowded(claims=10)
    alone = world.lane(0, tenant=1)
    waited = []
    for _ in range(6):
        world.waiting[alone] = 1
        claims = 0
        while world.waiting[alone]:
            claims += 1
            agenda = world.look(depth=1)
            for lane_id, asked in world.shares.deal(agenda, [500, 500]):
                missing = asked - min(asked, world.waiting[lane_id])
                world.waiting[lane_id] -= asked - missing
                if missing:
                    world.shares.gave_less(agenda, lane_id, missing)
        waited.append(claims)
    assert sum(waited) <= 12, waited


def test_a_full_lane_is_left_alone_for_longer_and_longer() -> None:
    full = FullLanes()
    pauses, now = [], 0.0
    for _ in range(6):
        full.gave(1, asked=5, got=0, now=now)
        assert 1 in full
        pause = full.until_the_next(now, 9.0)
        pauses.append(pause)
        now += pause
        full.forget(now)
        assert 1 not in full
    assert pauses[0] < pauses[1] < pauses[2] <= pauses[-1] == 0.5
    full.gave(1, asked=5, got=0, now=now)
    full.freed(now)
    assert full.until_the_next(now, 9.0) < 0.05
