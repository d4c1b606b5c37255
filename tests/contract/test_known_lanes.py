"""What is read before a claim, for one planner or for many, on each store."""

import asyncio

import pytest

from duetime.clock import monotonic_from
from duetime.errors import StoreUnavailable
from duetime.model.lane import Trial
from duetime.model.limits import QueueLimits
from duetime.model.planner import Planner
from duetime.store.protocol.store import Store
from duetime.store.shared.known_lanes import KnownLanes
from tests.contract.hands import TENANT, hand, job, retried, submit
from tests.contract.worlds import Time


class Instant:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def served(lanes: KnownLanes, task: str = "greet") -> Planner:
    planner = Planner({task: 0})
    lanes.add(planner)
    return planner


async def test_lanes_are_read_for_all_planners_and_not_again_at_once(store: Store) -> None:
    await submit(store, job(task="greet"), job(task="count"))
    with monotonic_from(instant := Instant()):
        lanes = KnownLanes(store.claims, rules_every=0.5)
        greet, count, other = (served(lanes, task) for task in ("greet", "count", "other"))
        assert await lanes.read()
        assert [len(planner.lanes) for planner in (greet, count, other)] == [1, 1, 0]
        await submit(store, job(task="other"))
        assert not await lanes.read(), "too soon"
        assert lanes.until_read == pytest.approx(0.05)
        instant.now += 0.05
        assert await lanes.read()
        assert len(other.lanes) == 1
        await submit(store, job(task="greet", queue="unserved"), job(task="no planner serves it"))
        assert await lanes.read(now=True)
        assert len(served(lanes).lanes) == 2, "a planner that comes later knows what is known"


async def test_pauses_that_could_not_be_read_are_read_again_before_a_look(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unavailable() -> frozenset[int]:
        raise StoreUnavailable("the database is away")

    with monotonic_from(Instant()):
        lanes = KnownLanes(store.claims, rules_every=60.0)
        planner = served(lanes)
        await store.queues.pause_queue(TENANT, "slow")
        await submit(store, job(queue="slow"))
        assert await lanes.read()
        with monkeypatch.context() as patched, pytest.raises(StoreUnavailable):
            patched.setattr(store.claims, "paused_lanes", unavailable)
            await lanes.read_rules()
        await lanes.read_rules()
        assert await lanes.look([planner], 10) is None


async def test_pauses_that_another_caller_is_reading_are_awaited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A claim and runs from streams ask for the rules independently."""
    real, asked, may_answer = store.claims.paused_lanes, asyncio.Event(), asyncio.Event()

    async def paused_lanes() -> frozenset[int]:
        asked.set()
        await may_answer.wait()
        return await real()

    monkeypatch.setattr(store.claims, "paused_lanes", paused_lanes)
    with monotonic_from(Instant()):
        lanes = KnownLanes(store.claims, rules_every=60.0)
        planner = served(lanes)
        await store.queues.pause_queue(TENANT, "slow")
        await submit(store, job(queue="slow"))
        assert await lanes.read()
        first = asyncio.create_task(lanes.read_rules())
        await asked.wait()
        second = asyncio.create_task(lanes.read_rules())
        await asyncio.wait([second], timeout=0.05)
        assert not second.done()
        assert lanes.rules_age > 60.0, "what is known is older than the lane"
        may_answer.set()
        await asyncio.gather(first, second)
        assert await lanes.look([planner], 10) is None


async def test_a_lane_that_wakes_in_a_paused_queue_is_not_looked_at(store: Store) -> None:
    with monotonic_from(instant := Instant()):
        lanes = KnownLanes(store.claims, rules_every=60.0)
        planner = served(lanes)
        await lanes.read_rules()
        assert lanes.rules_age == 0.0
        await store.queues.pause_queue(TENANT, "slow")
        await submit(store, job(queue="slow"), job())
        assert await lanes.read()
        assert lanes.rules_age > 60.0, "what was read of pauses is older than the lane"
        await lanes.read_rules()
        look = await lanes.look([planner], 10)
        assert look is not None
        assert len(look.sights) == 1
        await store.queues.resume_queue(TENANT, "slow")
        lanes.hint()
        await lanes.read_rules()
        look = await lanes.look([planner], 10)
        assert look is not None
        assert len(look.sights) == 2
        instant.now += 1.0
        assert await lanes.look([served(lanes, "other")], 10) is None


async def test_a_lane_whose_limit_is_full_is_left_alone_for_a_moment(store: Store) -> None:
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running=1))
    await submit(store, job(), job())
    worker = await hand(store)
    with monotonic_from(instant := Instant()):
        lanes = KnownLanes(store.claims, rules_every=0.5)
        planner = served(lanes)
        await lanes.read()
        await lanes.read_rules()
        look = await lanes.look([planner], 10)
        assert look is not None
        takes = [(look.sights[0].lane_id, 2)]
        claimed = await worker.claim(2)
        assert len(claimed) == 1
        lanes.learn_what_is_full(takes, claimed)
        assert await lanes.look([planner], 10) is None
        assert lanes.until_next(None, 9.0) == pytest.approx(0.05)
        instant.now += 0.05
        assert await lanes.look([planner], 10) is not None
        assert lanes.until_next(None, 9.0) == 9.0


async def test_it_sleeps_until_the_next_run_is_ready(store: Store, time: Time) -> None:
    await submit(store, job())
    worker = await hand(store)
    await worker.complete(retried(await worker.claim_one(), 3))
    lanes = KnownLanes(store.claims, rules_every=0.5)
    planner = served(lanes)
    await lanes.read()
    look = await lanes.look([planner], 10)
    assert lanes.until_next(look, 9.0) == pytest.approx(3.0, abs=0.01)
    assert lanes.until_next(look, 1.0) == 1.0
    time.advance(seconds=3)
    assert lanes.until_next(await lanes.look([planner], 10), 9.0) == 9.0, "it is ready: what it waits for is a slot"


async def test_the_lane_of_a_claimed_run_is_found_though_it_was_not_read(store: Store) -> None:
    await submit(store, job())
    worker = await hand(store)
    claimed = await worker.claim()
    lanes = KnownLanes(store.claims, rules_every=0.5)
    with pytest.raises(KeyError):
        lanes.tried(claimed[0].lane_id)
    await lanes.read_those_of(claimed)
    key = lanes.tried(claimed[0].lane_id)
    assert (key.tenant_id, key.task, key.trial) == (TENANT, "greet", Trial.NONE)
