"""The claimer's manners: when it looks, and what it does when it is given nothing."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest

from duetime.clock import ManualClock, monotonic_from
from duetime.engine.intake import prepare
from duetime.errors import StoreUnavailable
from duetime.ids import new_id
from duetime.model.attempt import Claimed
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import LaneKey, Look, Tier
from duetime.model.worker import WorkerInfo
from duetime.store.address import store_in_memory
from duetime.store.protocol.store import Store
from duetime.worker.claimer import Claimer
from duetime.worker.session import Session
from duetime.worker.slots import Slots
from duetime.worker.source import Wants
from duetime.worker.task import Place
from duetime.worker.trials import Trials
from tests.support.lying import Lie

LEASE = timedelta(seconds=10)


class Bench:
    """A claimer whose slots stay free, the store it claims from, and what it started."""

    def __init__(self, store: Store, slots: int) -> None:
        self.store = store
        self.started: list[Claimed] = []
        self.looks = 0
        self._look = store.claims.look
        store.claims.look = self._counted_look  # type: ignore[method-assign]
        poll = timedelta(milliseconds=500)
        places = {"work": Place.LOOP}
        room = Slots({Place.LOOP: slots}, lambda: None)
        self.claimer = Claimer(store.claims, Wants(room, Trials(), places, (), poll, self._start, lambda: 0))
        self.claimer.session = self.session = Session()

    async def register(self) -> None:
        await self.store.leases.register(WorkerInfo(self.session.id, "one", ("work",), (), 10), LEASE)

    async def submit(self, count: int, tier: Tier = Tier.MEDIUM) -> None:
        jobs = [prepare(task="work", args={}, max_payload=100, tier=tier) for _ in range(count)]
        await self.store.intake.submit(DEFAULT_TENANT, jobs)

    def _start(self, _session: Session, _claim_no: int, claimed: Claimed, _lane: LaneKey) -> None:
        self.started.append(claimed)

    async def _counted_look(self, lane_ids: Sequence[int], depth: int) -> Look:
        self.looks += 1
        return await self._look(lane_ids, depth)


@asynccontextmanager
async def claiming(slots: int, clock: ManualClock | None = None) -> AsyncIterator[Bench]:
    store = store_in_memory(clock or ManualClock())
    await store.open()
    try:
        await store.migrate()
        bench = Bench(store, slots)
        await bench.register()
        yield bench
    finally:
        await store.close()


async def test_one_look_serves_several_claims() -> None:
    # What a look found holds for a tenth of a second, in which nothing else may take its time.
    with monotonic_from(lambda: 1000.0):
        async with claiming(slots=200) as bench:
            await bench.submit(500)
            await bench.submit(500, Tier.LOW)
            for _ in range(3):
                await bench.claimer.tick()
            assert len(bench.started) == 600
            assert bench.looks == 1


async def test_nobody_is_overtaken_by_what_was_seen_before() -> None:
    async with claiming(slots=1) as bench:
        await bench.submit(1, Tier.HIGH)
        await bench.submit(5, Tier.LOW)
        await bench.claimer.tick()
        await bench.claimer.tick()
        await bench.submit(1, Tier.HIGH)
        bench.claimer.hint()
        await bench.claimer.tick()
        lanes = {lane.id: lane.key.tier for lane in await bench.store.claims.lanes()}
        assert [lanes[run.lane_id] for run in bench.started] == [Tier.HIGH, Tier.LOW, Tier.HIGH]


async def test_slots_that_become_free_during_a_look_are_filled_at_once() -> None:
    """A place is full, so its runs are left where they are; it empties while the look is on its way, and no other slot
    will ever be given back to wake the claimer. It must not sleep until the next poll."""
    async with claiming(slots=8) as bench:
        room = bench.claimer._slots
        room.sizes[Place.THREAD] = room.free[Place.THREAD] = 4  # another place has room, so there is a look
        await bench.submit(8)
        room.free[Place.LOOP] = 0

        look = bench.store.claims.look

        async def look_while_slots_are_given_back(lane_ids: Sequence[int], depth: int) -> Look:
            found = await look(lane_ids, depth)
            for _ in range(8):
                room.give_back(Place.LOOP)
            return found

        bench.store.claims.look = look_while_slots_are_given_back  # type: ignore[method-assign]
        assert await bench.claimer.tick() == 0.0
        bench.store.claims.look = look  # type: ignore[method-assign]
        await bench.claimer.tick()
        assert len(bench.started) == 8


async def test_a_worker_whose_lease_is_over_does_not_hammer_the_database() -> None:
    """Only the database knows that the lease is over: until the next heartbeat the worker sees runs that it is not
    given, and has to ask for them ever less often. (Found by the simulation: a clock that jumped over every lease.)"""
    clock = ManualClock()
    async with claiming(slots=10, clock=clock) as bench:
        await bench.submit(1)
        clock.advance(seconds=11)
        pauses = [await bench.claimer.tick() for _ in range(12)]
        assert pauses[0] < 0.01, "another worker may have been quicker: it looks again soon"
        assert sum(pauses) > 1.0
        assert not bench.started

        await bench.register()
        await bench.claimer.tick()
        assert len(bench.started) == 1


async def test_a_hint_about_a_new_lane_is_followed_up_though_lanes_were_just_read() -> None:
    """Else the first run of a new task waits for the next poll."""
    now = 1000.0
    with monotonic_from(lambda: now):
        async with claiming(slots=10) as bench:
            await bench.claimer.tick()
            await bench.submit(1)
            bench.claimer.hint()
            delay = await bench.claimer.tick()
            assert not bench.started
            assert delay <= 0.06
            now += delay
            await bench.claimer.tick()
            assert len(bench.started) == 1
            looks = bench.looks
            bench.claimer.hint()
            assert await bench.claimer.tick() <= 0.06, "it may be about another lane"
            now += 0.06
            assert await bench.claimer.tick() > 0.06, "and is not followed for ever"
            assert bench.looks <= looks + 2


async def test_a_claim_that_is_asked_for_again_and_brings_nothing_brings_nothing_later() -> None:
    """The first request was lost on its way, and arrives after the second has been answered."""
    async with claiming(slots=10) as bench:
        await bench.submit(1)
        lost = Lie(bench.store, "claim", happens=False)
        with pytest.raises(StoreUnavailable):
            await bench.claimer.tick()
        assert lost.told
        (claim_no,) = bench.claimer.unanswered(bench.session)
        (lane,) = await bench.store.claims.lanes()
        thief = new_id()
        await bench.store.leases.register(WorkerInfo(thief, "thief", ("work",), (), 10), LEASE)
        (stolen,) = await bench.store.claims.claim(thief, 1, [(lane.id, 1)])
        await bench.claimer.tick()
        assert not bench.claimer.unanswered(bench.session)
        await bench.store.completions.hand_back(thief, [(stolen.run_id, stolen.fence)])
        assert await bench.store.claims.claim(bench.session.id, claim_no, [(lane.id, 1)]) == []
        await bench.claimer.tick()
        assert [run.run_id for run in bench.started] == [stolen.run_id], "under another number it is to be had"
