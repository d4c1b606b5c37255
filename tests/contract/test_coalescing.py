"""Claiming and renewing for many workers at once."""

import asyncio
from datetime import timedelta

from duetime.ids import new_id
from duetime.model.worker import Seat
from duetime.store.protocol.store import Store
from tests.contract.hands import GRACE, LEASE, TENANT, Hand, hand, job, judge, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


async def takes(store: Store, take: int = 100) -> list[tuple[int, int]]:
    return [(lane.id, take) for lane in await store.claims.lanes()]


async def test_runs_are_dealt_in_order_up_to_each_ones_room(store: Store, time: Time) -> None:
    hands = [await hand(store) for _ in range(3)]
    submitted = []
    for _ in range(7):
        submitted.append((await submit(store, job(timeout_ms=5000))).run_id)
        time.advance(seconds=1)
    seats = [Seat(one.id, 1, room) for one, room in zip(hands, (2, 3, 10), strict=True)]
    dealt = await store.claims.claim_many(seats, await takes(store, 6))
    assert [sorted(run.run_id for run in dealt[one.id]) for one in hands] == [
        submitted[:2],
        submitted[2:5],
        submitted[5:6],
    ]
    first = min(dealt[hands[0].id], key=lambda run: run.ready_at)
    assert (first.fence, first.attempt, first.started_at, first.timeout_ms) == (1, 1, time.now, 5000)
    for one in hands:
        assert not (await one.succeed(*dealt[one.id])).refused


async def test_no_run_is_dealt_twice(store: Store, other: Store) -> None:
    await submit(store, *(job() for _ in range(50)))
    hands = [await hand(store) for _ in range(10)]
    wanted = await takes(store)
    answers = await asyncio.gather(
        *(
            asked.claims.claim_many([Seat(one.id, 1, 4) for one in hands[start : start + 5]], wanted)
            for asked, start in ((store, 0), (other, 5))
        )
    )
    runs = [run.run_id for dealt in answers for found in dealt.values() for run in found]
    assert len(runs) == len(set(runs)) == 40


async def test_asking_again_gives_the_same_runs(store: Store) -> None:
    await submit(store, *(job() for _ in range(6)))
    hands = [await hand(store) for _ in range(2)]
    seats = [Seat(one.id, 1, 2) for one in hands]
    first = await store.claims.claim_many(seats, await takes(store))
    again = await store.claims.claim_many([*seats, Seat((late := await hand(store)).id, 1, 2)], await takes(store))
    for one in hands:
        assert {run.run_id for run in again[one.id]} == {run.run_id for run in first[one.id]}
        assert {run.fence for run in again[one.id]} == {1}
    assert len(again[late.id]) == 2


async def test_who_has_no_lease_gets_nothing(store: Store, time: Time) -> None:
    await submit(store, *(job() for _ in range(3)))
    gone = await hand(store)
    time.advance(seconds=31)
    alive = await hand(store)
    dealt = await store.claims.claim_many(
        [Seat(gone.id, 1, 5), Seat(stranger := new_id(), 1, 5), Seat(alive.id, 1, 5)], await takes(store)
    )
    assert {worker: len(runs) for worker, runs in dealt.items()} == {gone.id: 0, stranger: 0, alive.id: 3}
    assert await store.claims.claim_many([], []) == {}


async def claimed(store: Store, one: Hand) -> list[int]:
    return [run.attempt for run in (await store.claims.claim_many([Seat(one.id, 9, 9)], await takes(store)))[one.id]]


async def test_many_leases_are_renewed_at_once(store: Store, time: Time) -> None:
    await submit(store, *(job() for _ in range(3)))
    gone = await hand(store)
    time.advance(seconds=31)
    await store.reaping.reap(10, judge, GRACE)
    keeping, losing = await hand(store), await hand(store)
    (kept,) = await keeping.claim(1)
    await losing.claim(1)
    await store.control.cancel_run(TENANT, kept.run_id)
    time.advance(seconds=29)
    renewals = await store.leases.renew_many([(gone.id, []), (keeping.id, [1]), (losing.id, [1])], LEASE)
    assert renewals[gone.id] is None
    renewal = renewals[keeping.id]
    assert renewal is not None
    assert (renewal.lease_until, renewal.cancelled, renewal.freed) == (time.now + LEASE, (kept.run_id,), 0)
    time.advance(seconds=2)
    renewals = await store.leases.renew_many([(keeping.id, [1]), (losing.id, [])], LEASE)
    assert [renewal.freed for renewal in renewals.values() if renewal is not None] == [0, 1]
    assert sorted(await claimed(store, losing)) == [1, 1]
    assert await store.leases.renew_many([], LEASE) == {}
