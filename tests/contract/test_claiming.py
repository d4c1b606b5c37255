"""Looking at lanes and claiming from them."""

import asyncio
from datetime import timedelta
from uuid import UUID

from duetime.model.attempt import RunNote
from duetime.model.lane import Tier
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, Hand, hand, job, reap, retried, submit
from tests.contract.worlds import Time


async def test_a_claim_leases_the_run_to_its_worker(store: Store, time: Time) -> None:
    worker = await hand(store)
    submitted = await submit(store, job(args=b"[1]", options=b'{"name":"n"}', timeout_ms=100))
    time.advance(seconds=3)
    claimed = await worker.claim_one()
    (lane,) = await store.claims.lanes()
    assert (claimed.run_id, claimed.job_id, claimed.lane_id) == (submitted.run_id, submitted.job_id, lane.id)
    assert (claimed.fence, claimed.attempt, claimed.lost) == (1, 1, 0)
    assert claimed.due_at == claimed.ready_at == time.now - timedelta(seconds=3)
    assert claimed.started_at == time.now
    assert (claimed.args, claimed.options, claimed.timeout_ms) == (b"[1]", b'{"name":"n"}', 100)
    assert claimed.checkpoint is None
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.worker_id, run.started_at) == (RunState.RUNNING, worker.id, time.now)
    assert run.lag == timedelta(seconds=3)
    assert run.lease_until == time.now - timedelta(seconds=3) + LEASE


async def test_each_run_of_a_claim_gets_what_is_its_own(store: Store) -> None:
    """Also bytes that are no text, as sealed ones are, and nothing beside something."""
    worker = await hand(store)
    bodies = [b"{}", b"\x00", b"a\x00b,\xff\xfe", "é".encode(), bytes(range(256)), b"", b'[1,"]"]'] * 3
    jobs = [
        job(
            args=body,
            options=None if number % 3 else b'{"name":"%d"}' % number,
            timeout_ms=None if number % 2 else number + 1,
        )
        for number, body in enumerate(bodies)
    ]
    await submit(store, *jobs)
    wanted = {each.id: (each.args, each.options, each.timeout_ms, None) for each in jobs}
    first = await worker.claim()
    assert {run.job_id: (run.args, run.options, run.timeout_ms, run.checkpoint) for run in first} == wanted
    checkpoints = {run.job_id: None if number % 4 else b"\x00%d\xff" % number for number, run in enumerate(first)}
    notes = [RunNote(run.run_id, run.fence, checkpoint=checkpoints[run.job_id]) for run in first]
    await store.completions.note(worker.id, notes)
    await worker.complete(*(retried(run) for run in first))
    again = await worker.claim()
    assert {run.job_id: (run.args, run.options, run.timeout_ms, run.checkpoint) for run in again} == {
        job_id: (*own[:3], checkpoints[job_id]) for job_id, own in wanted.items()
    }
    assert {(run.fence, run.attempt) for run in again} == {(2, 2)}


async def test_no_run_is_leased_twice_at_once(store: Store) -> None:
    first, second = await hand(store), await hand(store)
    await submit(store, *(job() for _ in range(10)))
    mine, theirs = await first.claim(6), await second.claim(6)
    assert (len(mine), len(theirs)) == (6, 4)
    assert {run.run_id for run in mine}.isdisjoint(run.run_id for run in theirs)
    assert await first.claim() == []


async def test_the_earliest_are_claimed_first(store: Store, time: Time) -> None:
    worker = await hand(store)
    jobs = [job(Once(delay=timedelta(seconds=seconds))) for seconds in (3, 1, 2, 0, 1)]
    answers = await store.intake.submit(TENANT, jobs)
    time.advance(seconds=2)
    wanted = sorted((answer.next_run, answer.run_id) for answer in answers)
    assert [run.run_id for run in await worker.claim(2)] == [run_id for _, run_id in wanted[:2]]
    assert [run.run_id for run in await worker.claim()] == [run_id for _, run_id in wanted[2:4]]
    assert await worker.claim() == []


async def test_a_claim_takes_so_many_from_each_lane(store: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job(tier=tier, queue=queue) for tier in Tier for queue in "ab" for _ in range(3)))
    lanes = await store.claims.lanes()
    takes = [(lane.id, number % 4) for number, lane in enumerate(lanes)]
    claimed = await store.claims.claim(worker.id, 1, takes)
    for lane_id, take in takes:
        assert sum(run.lane_id == lane_id for run in claimed) == min(take, 3)


async def test_asking_again_with_the_same_number_returns_the_same_runs(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job(args=b"[%d]" % number) for number in range(5)))
    first = await worker.claim(3)
    time.advance(seconds=1)
    assert await worker.claim_again(3) == first
    assert await worker.claim_again(100) == first
    rest = await worker.claim(100)
    assert len(rest) == 2
    # Also when nothing else is ready.
    assert await worker.claim_again() == rest


async def test_asking_again_returns_only_what_is_still_held(store: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(3)))
    first = await worker.claim()
    await worker.succeed(first[0])
    await store.completions.hand_back(worker.id, [(first[1].run_id, first[1].fence)])
    assert await worker.claim_again() == [first[2]]


async def test_a_number_under_which_nothing_was_claimed_is_still_good(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job(Once(delay=timedelta(hours=1))))
    assert await worker.claim() == []
    await submit(store, job())
    assert len(await worker.claim_again()) == 1


async def test_numbers_belong_to_their_worker(store: Store) -> None:
    first, second = await hand(store), await hand(store)
    await submit(store, *(job() for _ in range(2)))
    mine, theirs = await first.claim(1), await second.claim(1)
    assert first.claim_no == second.claim_no
    assert mine[0].run_id != theirs[0].run_id


async def test_a_worker_whose_lease_is_over_gets_nothing(store: Store, time: Time) -> None:
    worker, stranger = await hand(store), Hand(store)
    await submit(store, *(job() for _ in range(2)))
    held = await worker.claim(1)
    assert len(held) == 1
    time.advance(seconds=30)
    assert await worker.claim() == []
    worker.claim_no = 1
    assert await worker.claim_again() == []
    assert await stranger.claim() == []
    assert (await store.reads.run(TENANT, held[0].run_id)).fence == 1


async def test_every_claim_raises_the_fence_and_nothing_lowers_it(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job())
    assert submitted.run_id is not None
    fences = []
    for number in range(1, 7):
        claimed = await worker.claim_one()
        fences.append(claimed.fence)
        if number % 3 == 0:
            await store.completions.hand_back(worker.id, [(claimed.run_id, claimed.fence)])
        elif number % 3 == 1:
            await worker.snooze(claimed)
        else:
            await worker.retry(claimed)
        assert (await store.reads.run(TENANT, submitted.run_id)).fence == claimed.fence
    assert fences == [1, 2, 3, 4, 5, 6]


async def test_a_look_shows_what_is_ready_in_each_lane_and_what_comes_next(store: Store, time: Time) -> None:
    worker = await hand(store)
    near = await submit(store, job(Once(delay=timedelta(seconds=5))))
    ready = await submit(store, job())
    far = await submit(store, job(Once(delay=timedelta(seconds=9))))
    await submit(store, job(task="count"))
    first, second = await store.claims.lanes()
    look = await store.claims.look([first.id, second.id], 2)
    assert look.now == time.now
    (sight, _) = look.sights
    assert sight.lane_id == first.id
    assert sight.ready_at == (time.now, time.now + timedelta(seconds=5))
    assert sight.run_ids == (ready.run_id, near.run_id)
    await worker.claim()
    (sight,) = (await store.claims.look([second.id, first.id], 10)).sights
    assert sight.lane_id == first.id
    assert sight.run_ids == (near.run_id,), "what comes after that is not worth reading"
    time.advance(seconds=6)
    (sight,) = (await store.claims.look([first.id, second.id], 10)).sights
    assert sight.run_ids == (near.run_id, far.run_id)


async def test_a_look_leaves_out_lanes_without_runs_that_wait(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.claim_one()
    (lane,) = await store.claims.lanes()
    assert (await store.claims.look([lane.id, lane.id + 1000], 5)).sights == ()


async def test_claiming_at_once_never_shares_a_run(store: Store, other: Store) -> None:
    await submit(store, *(job() for _ in range(400)))
    workers = [await hand((store, other)[turn % 2]) for turn in range(8)]

    async def claim_all(worker: Hand) -> list[tuple[UUID, int]]:
        got = []
        for _ in range(12):
            got += [(run.run_id, run.fence) for run in await worker.claim(7)]
        return got

    claimed = [run for runs in await asyncio.gather(*map(claim_all, workers)) for run in runs]
    while rest := await workers[0].claim(100):
        claimed += [(run.run_id, run.fence) for run in rest]
    assert len(claimed) == len(set(claimed)) == 400
    assert {fence for _, fence in claimed} == {1}


async def test_one_claim_number_asked_twice_at_once_holds_one_set_of_runs(store: Store, other: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(20)))
    (lane,) = await store.claims.lanes()
    takes = [(lane.id, 5)]
    answers = await asyncio.gather(*((store, other)[turn % 2].claims.claim(worker.id, 1, takes) for turn in range(6)))
    held = {run.run_id for run in await store.claims.claim(worker.id, 1, takes)}
    assert len(held) == 5
    for answer in answers:
        assert {run.run_id for run in answer} <= held
    (sight,) = (await store.claims.look([lane.id], 100)).sights
    assert len(sight.run_ids) == 15


async def test_what_was_claimed_under_a_number_is_released_unspent(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(4)))
    released, kept = await worker.claim(2), await worker.claim(2)
    time.advance(seconds=5)
    assert await store.claims.release(worker.id, [1]) == 2
    assert await store.claims.release(worker.id, [1]) == 0
    for run in released:
        found = await store.reads.run(TENANT, run.run_id)
        assert (found.state, found.attempt, found.lost, found.attempts) == (RunState.PENDING, 0, 0, ())
        assert (found.due_at, found.ready_at) == (run.due_at, time.now)
    assert (await worker.succeed(*released)).refused == {run.run_id for run in released}
    assert (await worker.succeed(*kept)).refused == frozenset()
    await store.leases.leave(worker.id)
    assert await reap(store) == 0
    assert {run.run_id for run in await (await hand(store)).claim()} == {run.run_id for run in released}


async def test_a_claim_that_comes_after_its_release_takes_nothing(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    assert await store.claims.release(worker.id, [1]) == 0
    assert await worker.claim() == []
    assert len(await worker.claim()) == 1, "the next number is another claim"


async def test_claiming_and_releasing_at_once_leaves_nothing_behind(store: Store, other: Store) -> None:
    workers = [await hand(store) for _ in range(8)]
    await submit(store, *(job() for _ in range(8)))
    await asyncio.gather(
        *(worker.claim(1) for worker in workers), *(other.claims.release(each.id, [1]) for each in workers)
    )
    fresh = await hand(store)
    assert len(await fresh.claim()) == 8


async def test_a_released_run_that_shall_be_cancelled_ends(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await store.control.cancel_run(TENANT, run.run_id)
    assert await store.claims.release(worker.id, [1]) == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED
