"""Who goes next: shares of tenants and tiers, over one claim and over many."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from uuid import UUID

from duetime.model.agenda import Agenda
from duetime.model.lane import Lane, LaneKey, Sight, Tier, Trial
from duetime.model.shares import FullLanes, Shares

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

    def claim(self, free: int, depth: int = 1000, trials: int = 0) -> dict[int, int]:
        sights = []
        for lane_id, waiting in self.waiting.items():
            seen = min(depth, waiting)
            moments = tuple(NOW - timedelta(hours=1) + timedelta(seconds=number) for number in range(seen))
            sights.append(Sight(lane_id, moments, tuple(UUID(int=lane_id * 10**6 + number) for number in range(seen))))
        sights = [sight for sight in sights if sight.ready_at]
        room = {Trial.SUSPECT: trials, Trial.ALONE: trials}
        takes = dict(self.shares.deal(Agenda.of(sights, self.lanes, PLACES, room, NOW, depth), [free, free]))
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
    lanes = {world.lane(1000, tenant=1): 1, world.lane(1000, tenant=2): 2}
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
    lanes = {world.lane(1000, tier=tier): tier for tier in Tier}
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
