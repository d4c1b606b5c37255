"""Carried runs end or land once, whatever is delivered twice; and a run that has landed is a run like any other."""

import asyncio
import os
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import msgspec
import psycopg
import pytest

from duetime.clock import elapsed, monotonic_from
from duetime.crypto.sealer import Sealer, is_sealed
from duetime.engine.pruner import Pruner
from duetime.errors import Conflict, LeaseLost, NotFound, StoreUnavailable, StreamUnavailable
from duetime.ids import first_id_at, new_id, ready_run_id, show
from duetime.model.attempt import AttemptState, Claimed
from duetime.model.carried import UNREADABLE, CarriedEnd, CarriedRun, Landed, StreamQueue, StreamSettings, UnderClaim
from duetime.model.event import EventKind
from duetime.model.failure import FailureClass
from duetime.model.job import NewJob, Options, encode_options, lane_of
from duetime.model.lane import Tier, Trial
from duetime.model.lists import DeadFilter, JobFilter, JobStatus, ReplayPace, RunFilter
from duetime.model.microseconds import stamp
from duetime.model.run import RunState
from duetime.model.schedule import NOW, Once
from duetime.model.tenant import TenantChange, TenantState
from duetime.model.worker import Seat, WorkerInfo
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.wrappers.sealed import sealed
from tests.contract.announcements import Announcements
from tests.contract.conftest import on_postgres
from tests.contract.hands import LEASE, STRANGER, TENANT, Hand, hand, job, reap
from tests.contract.worlds import START, PostgresWorld, Time, World, query
from tests.support.waiting import eventually

DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def id_at(at: datetime) -> UUID:
    """The id of a job that is submitted at this moment."""
    return UUID(int=first_id_at(at).int | 7 << 76 | 0b10 << 62 | int.from_bytes(os.urandom(7), "big"))


def job_at(at: datetime, **what: Any) -> NewJob:
    return msgspec.structs.replace(job(**what), id=id_at(at))


def carried(
    at: datetime = START,
    *,
    tenant_id: int = TENANT,
    task: str = "greet",
    queue: str = "default",
    options: Options | None = None,
    args: bytes = b"{}",
    timeout_ms: int | None = None,
) -> CarriedRun:
    """A run that was submitted plain at this moment."""
    job_id = id_at(at)
    said = None if options is None else encode_options(options)
    lane = lane_of(tenant_id, queue, Tier.MEDIUM, task, said)
    return CarriedRun(ready_run_id(job_id), job_id, lane, stamp(at), args, said, timeout_ms)


def ends(runs: Sequence[CarriedRun], seconds: float = 0.0, **outcome: bytes) -> list[CarriedEnd]:
    return [CarriedEnd(run, run.due + int(seconds * 1_000_000), **outcome) for run in runs]


def as_claimed(run: CarriedRun) -> Claimed:
    """What a worker knows of a run that it has landed RUNNING."""
    moments = (run.due, run.due, run.due)
    return Claimed(run.run_id, run.job_id, 0, 1, 1, 0, *moments, run.args, run.options, run.timeout_ms, None)


async def land_running(worker: Hand, *runs: CarriedRun) -> list[Claimed]:
    worker.claim_no += 1
    stored = await worker.store.streams.land(runs, UnderClaim(worker.id, worker.claim_no))
    assert stored == {run.run_id for run in runs}
    return [as_claimed(run) for run in runs]


async def attempts(store: Store, run: CarriedRun) -> list[tuple[AttemptState, int]]:
    found = await store.reads.run(TENANT, run.run_id)
    return [(attempt.state, attempt.fence) for attempt in sorted(found.attempts, key=lambda each: each.fence)]


# Ending.


async def test_a_carried_run_ends_like_a_run_of_the_store(store: Store, time: Time) -> None:
    worker = await hand(store)
    run = carried(options=Options(tags=("a", "b"), owner="u1", name="n"), args=b'{"x":1}', timeout_ms=5000)
    time.advance(seconds=3)
    assert await store.streams.end_carried(worker.id, ends([run], 1, result=b'"ok"', logs=b'["line"]')) == frozenset()
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.result, found.args) == (RunState.SUCCEEDED, b'"ok"', b'{"x":1}')
    assert found.attempts[0].logs == b'["line"]'
    assert (found.job_id, found.due_at, found.started_at) == (run.job_id, START, START + timedelta(seconds=1))
    assert found.finished_at == START + timedelta(seconds=3)
    assert (found.task, found.queue, found.worker_id) == ("greet", "default", worker.id)
    assert await attempts(store, run) == [(AttemptState.SUCCEEDED, 1)]
    ended = await store.reads.job(TENANT, run.job_id)
    assert (ended.id, ended.task) == (run.job_id, "greet")
    assert [each.id for each in await store.reads.runs_of_job(TENANT, run.job_id)] == [run.run_id]
    assert (await store.lists.job_status(TENANT, run.job_id)).status is JobStatus.SUCCEEDED
    filters = (JobFilter(), JobFilter(tag="b"), JobFilter(owner="u1"), JobFilter(name="n"), JobFilter(task="greet"))
    for filter in filters:
        assert [item.id for item in (await store.lists.list_jobs(TENANT, filter)).items] == [run.job_id], filter
    assert [item.id for item in (await store.lists.list_runs(TENANT, RunFilter())).items] == [run.run_id]


async def test_a_run_in_a_stream_is_not_known(store: Store) -> None:
    run = carried()
    with pytest.raises(NotFound):
        await store.reads.run(TENANT, run.run_id)
    with pytest.raises(NotFound):
        await store.reads.job(TENANT, run.job_id)


async def test_another_tenant_does_not_see_it(store: Store) -> None:
    worker, run = await hand(store), carried()
    await store.streams.end_carried(worker.id, ends([run]))
    with pytest.raises(NotFound):
        await store.reads.run(STRANGER, run.run_id)


async def test_clocks_that_are_ahead_put_no_moment_after_the_end(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried(START + HOUR)
    await store.streams.end_carried(worker.id, ends([run], 60))
    found = await store.reads.run(TENANT, run.run_id)
    assert found.due_at == found.started_at == found.finished_at == START


async def test_a_run_ends_once(store: Store, time: Time) -> None:
    worker, runs = await hand(store), [carried() for _ in range(10)]
    assert await store.streams.end_carried(worker.id, ends(runs[:4])) == frozenset()
    refused = await store.streams.end_carried(worker.id, ends(runs, result=b"2"))
    assert refused == {run.run_id for run in runs[:4]}
    assert await store.streams.end_carried(worker.id, ends(runs)) == {run.run_id for run in runs}
    counts = await store.reads.counts()
    assert (counts.runs, counts.history) == (0, 10)
    assert (await store.reads.run(TENANT, runs[0].run_id)).result is None
    assert (await store.reads.run(TENANT, runs[9].run_id)).result == b"2"


async def test_a_run_that_is_twice_in_a_batch_ends_once(store: Store) -> None:
    worker, run, other = await hand(store), carried(), carried()
    batch = [*ends([run], result=b"1"), *ends([run, other], result=b"2")]
    assert await store.streams.end_carried(worker.id, batch) == frozenset()
    assert (await store.reads.counts()).history == 2
    assert (await store.reads.run(TENANT, run.run_id)).result == b"1"


async def test_a_run_that_is_delivered_on_both_sides_of_midnight_ends_once(store: Store, time: Time) -> None:
    worker = await hand(store, DAY * 9)
    runs = [carried(START.replace(hour=23, minute=59) + timedelta(minutes=minute)) for minute in (0, 1)]
    time.advance(hours=14, minutes=59)  # 23:59
    assert await store.streams.end_carried(worker.id, ends(runs)) == frozenset()
    for _ in range(3):
        time.advance(minutes=2)
        assert await store.streams.end_carried(worker.id, ends(runs)) == {run.run_id for run in runs}
        assert await store.streams.land(runs, Landed.WAITING) == frozenset()
        time.advance(days=1)
    assert (await store.reads.counts()).history == 2


async def test_four_writers_of_the_same_runs_end_each_once(store: Store, other: Store) -> None:
    worker = await hand(store)
    for _ in range(3):
        runs = [carried() for _ in range(300)]
        orders = [runs, runs[::-1], runs[150:] + runs[:150], sorted(runs, key=lambda run: run.run_id.int % 97)]
        writers = [
            (store if place % 2 else other).streams.end_carried(worker.id, ends(order))
            for place, order in enumerate(orders)
        ]
        accepted = Counter(
            run.run_id for refused in await asyncio.gather(*writers) for run in runs if run.run_id not in refused
        )
        assert accepted == Counter({run.run_id: 1 for run in runs})
    assert (await store.reads.counts()).history == 900


@on_postgres
async def test_writers_of_the_same_runs_do_not_deadlock(
    world: PostgresWorld, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each with its own order of the runs. All meet at one in the middle: unsorted, each would hold what another one
    waits for. A deadlock would be resolved and repeated unnoticed, so nothing is repeated here."""
    worker, runs = await hand(store), sorted([carried() for _ in range(100)], key=lambda run: run.run_id)
    for name in ("_end", "_land"):
        monkeypatch.setattr(type(store.streams), name, getattr(type(store.streams), name).__wrapped__)
    await store.streams.end_carried(worker.id, ends([carried()]))  # the lane is known

    async def waiting() -> bool:
        found = query(world.dsn, "select count(*) from pg_stat_activity where wait_event = 'transactionid'")
        return found == [(3,)]

    with psycopg.connect(world.dsn) as holder:
        holder.execute("insert into duetime.spent values (%s)", [runs[50].run_id])
        writers = [
            asyncio.create_task(store.streams.end_carried(worker.id, ends(runs))),
            asyncio.create_task(store.streams.end_carried(worker.id, ends(runs[::-1]))),
            asyncio.create_task(store.streams.land(runs[60:] + runs[:60], Landed.WAITING)),
        ]
        await eventually(waiting)
        holder.rollback()
    first, second, stored = await asyncio.gather(*writers)
    assert Counter([*(run.run_id for run in runs if run.run_id not in first), *stored]) + Counter(
        run.run_id for run in runs if run.run_id not in second
    ) == Counter({run.run_id: 1 for run in runs})


async def test_ids_of_forgotten_days_are_refused(store: Store, time: Time) -> None:
    worker = await hand(store, DAY * 30)
    old, late, waiting = carried(), carried(), carried()
    assert await store.streams.end_carried(worker.id, ends([old])) == frozenset()
    time.advance(days=2)
    await store.streams.prune_spent(time.now.date())
    assert await store.streams.end_carried(worker.id, ends([old, late])) == {old.run_id}, "the day is not two days past"
    time.advance(days=1)
    await store.pruning.prune(DAY * 30, DAY * 30)
    assert await store.streams.prune_spent(START.date()) == 0, "not asked for"
    assert await store.streams.prune_spent(time.now.date()) >= 1
    young = carried(time.now)
    refused = await store.streams.end_carried(worker.id, ends([old, waiting, young]))
    assert refused == {old.run_id, waiting.run_id}
    assert await store.streams.land([old, waiting], Landed.WAITING) == frozenset()
    time.advance(days=-3)
    await store.pruning.prune(DAY * 30, DAY * 30)  # a clock that was set back brings no day back
    assert await store.streams.end_carried(worker.id, ends([old])) == {old.run_id}
    counts = await store.reads.counts()
    assert (counts.runs, counts.history) == (0, 3)


@on_postgres
async def test_an_id_without_a_partition_is_refused_and_takes_no_other_with_it(store: Store, time: Time) -> None:
    worker = await hand(store)
    ahead, behind, now = carried(START + 400 * DAY), carried(START - 400 * DAY), carried()
    assert await store.streams.end_carried(worker.id, ends([ahead, behind, now])) == {ahead.run_id, behind.run_id}
    assert await store.streams.land([ahead, behind], Landed.SUSPECT) == frozenset()


@on_postgres
async def test_days_of_spent_are_attached_ahead_and_dropped(world: PostgresWorld, store: Store, time: Time) -> None:
    def days() -> list[str]:
        rows = world._execute(
            "select relname from pg_class c join pg_inherits i on i.inhrelid = c.oid"
            " where i.inhparent = 'duetime.spent'::regclass and relname < 'spent_202604' order by 1"
        )
        return [name.removeprefix("spent_202603") for (name,) in rows.fetchall()]

    assert days() == ["01", "02", "03", "04", "05", "06", "07", "08", "09"]
    time.advance(days=3)
    await store.pruning.prune(DAY * 30, DAY * 30)
    assert days()[-1] == "12"
    assert await store.streams.prune_spent(START.date() + 30 * DAY) == 2, "03 is not two days past"
    assert days()[0] == "03"
    time.advance(days=-3)
    await store.pruning.prune(DAY * 30, DAY * 30)
    assert days()[0] == "03"


async def test_what_a_carried_run_refers_to_is_kept(world: World, store: Store, time: Time) -> None:
    worker, payload_id = await hand(store), new_id()
    await store.payloads.put_payload(TENANT, payload_id, b"body")
    run = carried(options=Options(payload_ref=show("pay", payload_id)))
    refused = carried(START, options=Options(payload_ref=show("pay", payload_id), tags=("t",)))
    await store.streams.land([refused], Landed.WAITING)
    before = await world.rows_of("payload_refs")
    await store.streams.end_carried(worker.id, ends([run, refused]))
    assert (before, await world.rows_of("payload_refs")) == (1, 2)


async def test_ends_and_landings_are_told_to_watchers(store: Store, time: Time) -> None:
    worker = await hand(store)
    await store.streams.end_carried(worker.id, ends([carried()]))
    mark = await store.events.keep_listening(HOUR)
    run, waiting, suspect = carried(), carried(), carried()
    await store.streams.end_carried(worker.id, ends([run]))
    await store.streams.end_carried(worker.id, ends([run]))
    await store.streams.land([waiting, run], Landed.WAITING)
    await store.streams.land([suspect], Landed.SUSPECT)
    told = [(event.kind, event.ids) for event in await store.events.events(mark)]
    assert told == [
        (EventKind.SUBMITTED, (run.job_id,)),
        (EventKind.STARTED, (run.run_id,)),
        (EventKind.SUCCEEDED, (run.run_id,)),
        (EventKind.SUBMITTED, (waiting.job_id,)),
        (EventKind.SUBMITTED, (suspect.job_id,)),
        (EventKind.RETRYING, (suspect.run_id,)),
    ]


async def test_a_lane_that_only_carried_runs_use_is_not_removed(world: World, store: Store, time: Time) -> None:
    worker = await hand(store, DAY * 90)
    for _ in range(8):
        run = carried(time.now)
        assert await store.streams.end_carried(worker.id, ends([run])) == frozenset()
        for _ in range(4):
            time.advance(hours=6)
            await store.claims.tidy_lanes()
        await store.pruning.prune(DAY, DAY)
        assert (await store.reads.run(TENANT, run.run_id)).task == "greet"


# Landing.


async def test_a_run_that_lands_waits_in_its_lane(store: Store, time: Time) -> None:
    announced, worker = Announcements(store), await hand(store)
    run = carried(options=Options(tags=("t",)), args=b'{"a":1}', timeout_ms=1000)
    time.advance(seconds=9)
    assert await store.streams.land([run], Landed.WAITING) == {run.run_id}
    assert await announced.check() == 1
    assert await store.streams.land([run], Landed.WAITING) == frozenset()
    assert await announced.check() == 0
    assert await store.streams.end_carried(worker.id, ends([run])) == {run.run_id}
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.due_at, found.attempts) == (RunState.PENDING, START, ())
    assert [item.id for item in (await store.lists.list_jobs(TENANT, JobFilter(tag="t"))).items] == [run.job_id]
    claimed = await worker.claim_one()
    assert (claimed.run_id, claimed.fence, claimed.attempt, claimed.lost) == (run.run_id, 1, 1, 0)
    assert (claimed.args, claimed.timeout_ms, claimed.due_at) == (b'{"a":1}', 1000, START)
    await worker.succeed(claimed)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED
    assert await store.streams.land([run], Landed.SUSPECT) == frozenset(), "it has ended"


async def test_a_redelivered_run_is_tried_apart_and_dies_of_its_fourth_worker(store: Store, time: Time) -> None:
    run = carried()
    assert await store.streams.land([run], Landed.SUSPECT) == {run.run_id}
    trials = {lane.id: lane.key.trial for lane in await store.claims.lanes()}
    assert await attempts(store, run) == [(AttemptState.LOST, 1)]
    for lost, trial in ((1, Trial.SUSPECT), (2, Trial.PROBED), (3, Trial.ALONE)):
        worker = await hand(store)
        trials |= {lane.id: lane.key.trial for lane in await store.claims.lanes()}
        claimed = await worker.claim_one()
        assert (trials[claimed.lane_id], claimed.lost, claimed.attempt, claimed.fence) == (trial, lost, 1, lost + 1)
        time.advance(seconds=60)
        await reap(store)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.FAILED
    (dead,) = (await store.lists.list_dead_letters(TENANT, DeadFilter())).items
    assert (dead.run_id, dead.failure) == (run.run_id, FailureClass.LOST)
    assert [state for state, _ in await attempts(store, run)] == [AttemptState.LOST] * 4


async def test_a_run_that_lands_running_is_completed_like_a_claimed_one(store: Store, time: Time) -> None:
    worker = await hand(store)
    run = carried()
    time.advance(seconds=6)
    started = [run.due + 1_000_000]
    assert await store.streams.land([run], UnderClaim(worker.id, 1, started)) == {run.run_id}
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.started_at) == (RunState.RUNNING, START + timedelta(seconds=1))
    assert [each.run_id for each in await store.leases.held_runs(worker.id, [run.run_id])] == [run.run_id]
    assert (await worker.succeed(as_claimed(run), result=b"1")).refused == frozenset()
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.result, found.started_at) == (
        RunState.SUCCEEDED,
        b"1",
        START + timedelta(seconds=1),
    )
    assert await attempts(store, run) == [(AttemptState.SUCCEEDED, 1)]


async def test_a_landing_whose_answer_was_lost_can_be_repeated(store: Store, time: Time) -> None:
    worker, runs, taken = await hand(store), [carried(), carried()], carried()
    await store.streams.land([taken], Landed.WAITING)
    for _ in range(2):
        stored = await store.streams.land([*runs, taken], UnderClaim(worker.id, 1))
        assert stored == {run.run_id for run in runs}
    assert await store.leases.renew(worker.id, LEASE, [1]) is not None
    await worker.succeed(as_claimed(runs[0]))
    assert await store.streams.land([*runs, taken], UnderClaim(worker.id, 1)) == {runs[1].run_id}


async def test_nothing_lands_under_a_number_that_was_used_or_released(store: Store, time: Time) -> None:
    worker, first, second = await hand(store), carried(), carried()
    await land_running(worker, first)
    with pytest.raises(LeaseLost):
        await store.streams.land([second], UnderClaim(worker.id, worker.claim_no))
    await store.claims.release(worker.id, [7])
    with pytest.raises(LeaseLost):
        await store.streams.land([second], UnderClaim(worker.id, 7))
    assert await store.streams.land([second], Landed.WAITING) == {second.run_id}, "nothing was spent"


async def test_nothing_lands_under_a_lease_that_is_over(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried()
    time.advance(seconds=31)
    for worker_id in (worker.id, new_id()):
        with pytest.raises(LeaseLost):
            await store.streams.land([run], UnderClaim(worker_id, 1))
    assert await store.streams.end_carried(worker.id, ends([run])) == frozenset(), "nothing was spent"


async def test_nothing_lands_under_a_worker_of_another_tenant_or_queue(store: Store, time: Time) -> None:
    bound = WorkerInfo(new_id(), "bound", ("greet",), ("mail",), 10, tenant_id=TENANT)
    await store.leases.register(bound, LEASE)
    for run in (carried(), carried(tenant_id=STRANGER, queue="mail")):
        with pytest.raises(LeaseLost):
            await store.streams.land([run], UnderClaim(bound.id, 1))
    run = carried(queue="mail")
    assert await store.streams.land([run], UnderClaim(bound.id, 1)) == {run.run_id}


async def test_runs_are_assigned_to_several_workers_at_once(store: Store, time: Time) -> None:
    announced = Announcements(store)
    first, second, gone = await hand(store), await hand(store), await hand(store, timedelta(seconds=1))
    runs = [carried(timeout_ms=5000), carried(), carried(args=b'{"a":1}'), carried()]
    spent = carried()
    await store.streams.land([spent], Landed.WAITING)
    await announced.check()
    time.advance(seconds=2)
    seats = [Seat(worker.id, 1, 2) for worker in (first, second, gone)]
    dealt = await store.streams.assign(seats, [*zip(runs, (0, 0, 1, 2), strict=True), (spent, 1)])
    assert {worker_id: [run.run_id for run in given] for worker_id, given in dealt.items()} == {
        first.id: sorted(run.run_id for run in runs[:2]),
        second.id: [runs[2].run_id],
        gone.id: [],
    }
    (claimed,) = dealt[second.id]
    assert (claimed.fence, claimed.attempt, claimed.lost, claimed.args) == (1, 1, 0, b'{"a":1}')
    assert claimed.started_at == START + timedelta(seconds=2)
    assert claimed.lane_id in {lane.id for lane in await store.claims.lanes()}
    assert await announced.check() > 0, "the run of a worker that is gone waits"
    states = [(await store.reads.run(TENANT, run.run_id)).state for run in (*runs, spent)]
    assert states == [RunState.RUNNING] * 3 + [RunState.PENDING] * 2
    assert (await second.succeed(claimed)).refused == frozenset()
    again = await store.claims.claim_many([Seat(first.id, 1, 2)], [])
    assert {run.run_id for run in again[first.id]} == {run.run_id for run in runs[:2]}, "an answer can be asked for"
    later = carried()
    dealt = await store.streams.assign([Seat(first.id, 1, 2)], [(later, 0)])
    assert dealt == {first.id: []}, "the number was used"
    assert (await store.reads.run(TENANT, later.run_id)).state is RunState.PENDING
    time.advance(seconds=60)
    await reap(store)
    assert {await attempts_state(store, run) for run in runs[:2]} == {(AttemptState.LOST,)}


async def attempts_state(store: Store, run: CarriedRun) -> tuple[AttemptState, ...]:
    return tuple(state for state, _ in await attempts(store, run))


async def test_a_worker_is_assigned_no_run_of_another_tenant_or_queue(store: Store) -> None:
    bound = WorkerInfo(new_id(), "bound", ("greet",), ("mail",), 10, tenant_id=TENANT)
    await store.leases.register(bound, LEASE)
    for number, run in enumerate((carried(), carried(tenant_id=STRANGER, queue="mail")), 1):
        assert await store.streams.assign([Seat(bound.id, number, 1)], [(run, 0)]) == {bound.id: []}
        assert (await store.reads.run(run.lane.tenant_id, run.run_id)).state is RunState.PENDING
    run = carried(queue="mail")
    dealt = await store.streams.assign([Seat(bound.id, 3, 1)], [(run, 0)])
    assert [each.run_id for each in dealt[bound.id]] == [run.run_id]


async def test_a_failed_run_is_tried_again_and_becomes_a_dead_letter(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried()
    (claimed,) = await land_running(worker, run)
    await worker.retry(claimed, 5)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RETRYING
    time.advance(seconds=5)
    again = await worker.claim_one()
    assert (again.run_id, again.fence, again.attempt) == (run.run_id, 2, 2)
    await worker.fail(again)
    assert [item.run_id for item in (await store.lists.list_dead_letters(TENANT, DeadFilter())).items] == [run.run_id]
    assert [state for state, _ in await attempts(store, run)] == [AttemptState.FAILED] * 2
    await store.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), b"n")
    time.advance(seconds=1)
    assert (await worker.claim_one()).job_id == run.job_id


async def test_a_landed_run_is_freed_when_its_worker_dies(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried()
    await land_running(worker, run)
    time.advance(seconds=31)
    assert await reap(store) == 1
    other = await hand(store)
    claimed = await other.claim_one()
    assert (claimed.run_id, claimed.lost, claimed.fence) == (run.run_id, 1, 2)
    assert (await worker.succeed(as_claimed(run))).refused == {run.run_id}


async def test_a_landed_run_that_exceeds_its_timeout_is_taken_from_its_worker(store: Store, time: Time) -> None:
    worker, run = await hand(store, HOUR), carried(timeout_ms=10_000)
    await land_running(worker, run)
    time.advance(seconds=14)
    assert await reap(store) == 0
    time.advance(seconds=2)
    assert await reap(store) == 1
    assert (await attempts(store, run))[0][0] is AttemptState.FAILED


async def test_a_landed_run_can_be_cancelled(store: Store, time: Time) -> None:
    worker, run, waiting = await hand(store), carried(), carried()
    (claimed,) = await land_running(worker, run)
    await store.streams.land([waiting], Landed.WAITING)
    assert (await store.control.cancel_run(TENANT, waiting.run_id)).state is RunState.CANCELLED
    await store.control.cancel_run(TENANT, run.run_id)
    assert await store.leases.cancellations(worker.id) == (run.run_id,)
    await worker.retry(claimed)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED


async def test_a_landed_run_can_be_handed_back(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried()
    await land_running(worker, run)
    assert await store.completions.hand_back(worker.id, [(run.run_id, 1)]) == 1
    claimed = await worker.claim_one()
    assert (claimed.run_id, claimed.fence, claimed.attempt) == (run.run_id, 2, 1)
    other = carried()
    await land_running(worker, other)
    assert await store.claims.release(worker.id, [worker.claim_no]) == 1


async def test_a_worker_that_does_not_list_a_landed_run_gives_it_back(store: Store, time: Time) -> None:
    worker, run = await hand(store), carried()
    await land_running(worker, run)
    time.advance(seconds=25)
    await store.leases.renew(worker.id, LEASE, [worker.claim_no])
    time.advance(seconds=25)
    await store.leases.renew(worker.id, LEASE, [])
    assert (await worker.claim_one()).run_id == run.run_id


async def test_a_landing_wakes_its_lane(store: Store, other: Store, time: Time) -> None:
    worker = await hand(store, DAY)
    await store.streams.land([carried()], Landed.WAITING)
    await worker.succeed(await worker.claim_one())
    for _ in range(5):
        time.advance(seconds=60)
        await other.claims.tidy_lanes()
    run = carried(time.now)
    assert await store.streams.land([run], Landed.WAITING) == {run.run_id}
    assert (await worker.claim_one()).run_id == run.run_id


async def test_a_run_ends_or_lands_but_never_both(store: Store, other: Store, time: Time) -> None:
    worker = await hand(store)
    runs = [carried() for _ in range(200)]
    refused, stored, suspected = await asyncio.gather(
        store.streams.end_carried(worker.id, ends(runs)),
        other.streams.land(runs[::-1], Landed.WAITING),
        store.streams.land(runs[100:] + runs[:100], Landed.SUSPECT),
    )
    acted = Counter([*stored, *suspected, *(run.run_id for run in runs if run.run_id not in refused)])
    assert acted == Counter({run.run_id: 1 for run in runs})
    counts = await store.reads.counts()
    assert counts.runs == len(stored) + len(suspected)


# Submitting.


async def test_what_is_carried_is_what_would_be_stored(store: Store) -> None:
    made = job_at(START, args=b'{"a":1}', options=encode_options(Options(tags=("t",))), timeout_ms=7)
    (run,) = await store.streams.carry(TENANT, [made])
    assert (run.run_id, run.job_id, run.lane) == (made.first_run_id(), made.id, made.lane)
    assert (run.args, run.options, run.timeout_ms) == (made.args, made.options, 7)
    assert run.due == stamp(START)
    assert await store.streams.carry(TENANT, [made]) == [run]


async def test_an_id_that_would_be_refused_is_not_carried(store: Store, time: Time) -> None:
    """Otherwise a run would be accepted, and lost when it ends."""
    time.advance(days=5)
    await store.pruning.prune(DAY * 30, DAY * 30)
    await store.streams.prune_spent(time.now.date())
    for at in (START, time.now - timedelta(days=3)):
        with pytest.raises(StreamUnavailable):
            await store.streams.carry(TENANT, [job_at(time.now), job_at(at)])
    assert await store.streams.carry(TENANT, [job_at(time.now + timedelta(minutes=30))])


@on_postgres
async def test_a_clock_that_differs_from_the_database_is_noticed(store: Store, time: Time) -> None:
    for hours in (-2, 2, 24 * 6):
        with pytest.raises(StreamUnavailable):
            await store.streams.carry(TENANT, [job_at(START + hours * HOUR)])


@on_postgres
async def test_a_lane_costs_one_question(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = await hand(store)
    await store.streams.carry(TENANT, [job_at(START)])
    monkeypatch.setattr(store.context.lane_book, "_find_homes", None)
    await store.streams.carry(TENANT, [job_at(START)])
    assert await store.streams.end_carried(worker.id, ends([carried()])) == frozenset()


# Which queues go through streams.

REDIS, KAFKA = StreamSettings("redis://a/0"), StreamSettings("kafka://b", only=True, fallback=True, max_depth=5)


async def test_a_queue_goes_through_a_stream_and_back(store: Store, time: Time) -> None:
    assert await store.streams.stream_queues() == []
    first = await store.streams.set_stream(TENANT, "mail", REDIS)
    assert first == StreamQueue(TENANT, "mail", 1, REDIS, current=True, age=0)
    time.advance(seconds=90)
    changed = await store.streams.set_stream(TENANT, "mail", StreamSettings("redis://a/0", replicas=2))
    assert changed is not None and (changed.generation, changed.age) == (1, 90), "the same stream with other settings"
    second = await store.streams.set_stream(TENANT, "mail", KAFKA)
    assert second == StreamQueue(TENANT, "mail", 2, KAFKA, current=True, age=0)
    time.advance(seconds=5)
    found = await store.streams.stream_queues(TENANT)
    assert [(each.generation, each.current, each.age) for each in found] == [(1, False, 5), (2, True, 5)]
    assert await store.streams.set_stream(TENANT, "mail", None) is None
    found = await store.streams.stream_queues()
    assert [(each.generation, each.current, each.age) for each in found] == [(1, False, 5), (2, False, 0)]
    assert await store.streams.stream_queues(STRANGER) == []


async def test_a_generation_is_retired_when_no_process_can_publish_to_it(store: Store, time: Time) -> None:
    await store.streams.set_stream(TENANT, "mail", REDIS)
    time.advance(hours=1)
    assert not await store.streams.retire_stream(TENANT, "mail", 1), "it is current"
    await store.streams.set_stream(TENANT, "mail", None)
    time.advance(seconds=100)
    assert not await store.streams.retire_stream(TENANT, "mail", 1), "a process may not have heard of the change"
    time.advance(seconds=60)
    assert await store.streams.retire_stream(TENANT, "mail", 1)
    assert not await store.streams.retire_stream(TENANT, "mail", 1)
    assert [each.current for each in await store.streams.stream_queues()] == [False], "it went back 160 s ago"
    time.advance(minutes=20)
    assert await store.streams.stream_queues() == []
    await store.pruning.prune(DAY, DAY)
    again = await store.streams.set_stream(TENANT, "mail", REDIS)
    assert again is not None and again.generation == 1


async def test_a_queue_has_a_bounded_number_of_generations(store: Store, time: Time) -> None:
    for number in range(8):
        await store.streams.set_stream(TENANT, "mail", StreamSettings(f"redis://a/{number}"))
    with pytest.raises(Conflict):
        await store.streams.set_stream(TENANT, "mail", StreamSettings("redis://a/9"))
    assert [each.current for each in await store.streams.stream_queues()] == [False] * 7 + [True], "nothing changed"
    time.advance(minutes=3)
    assert await store.streams.retire_stream(TENANT, "mail", 1)
    await store.streams.set_stream(TENANT, "mail", StreamSettings("redis://a/9"))


async def test_a_stream_queue_says_whether_it_is_paused(store: Store, time: Time) -> None:
    async def paused() -> list[bool]:
        return [each.paused for each in await store.streams.stream_queues()]

    await store.streams.set_stream(TENANT, "mail", REDIS)
    assert await paused() == [False]
    await store.queues.pause_queue(TENANT, "mail")
    assert await paused() == [True]
    await store.queues.resume_queue(TENANT, "mail")
    assert await paused() == [False]
    await store.tenants.update_tenant(TENANT, TenantChange(state=TenantState.SUSPENDED))
    assert await paused() == [True]


async def test_loops_share_a_reading_of_stream_queues(store: Store) -> None:
    passed, kept = 0.0, sealed(store, Sealer([("k", bytes(32))]))

    async def known(within: float, of: Store = store) -> tuple[list[StreamSettings], float]:
        """What is known, and when it was read."""
        queues, read_at = await of.streams.known_queues(within)
        return [queue.settings for queue in queues], round(read_at - began, 3)

    with monotonic_from(lambda: 1000.0 + passed):
        began = elapsed()
        assert await known(1.0) == ([], 0.0)
        passed = 0.5
        assert await known(1.0, kept) == ([], 0.0)
        assert await known(0.4) == ([], 0.5)
        passed = 5.0
        await store.claims.rules()
        passed = 5.5
        assert await known(1.0) == ([], 5.0), "the rules have told"
        passed = 5.6
        await kept.streams.set_stream(TENANT, "mail", REDIS)
        passed = 5.7
        assert await known(1.0, kept) == ([REDIS], 5.7), "a change by this process is known at once"
        passed = 9.0
        await store.claims.rules()
        assert await known(5.0, kept) == ([REDIS], 5.7), "the rules know no settings"


async def test_a_password_in_an_address_is_not_stored_as_it_is(world: World, store: Store) -> None:
    kept = sealed(store, Sealer([("k", bytes(32))]))
    secret = StreamSettings("redis://:s3cret@a/0", only=True)
    made = await kept.streams.set_stream(TENANT, "mail", secret)
    assert made is not None and made.settings == secret
    (stored,) = await store.streams.stream_queues()
    assert "s3cret" not in stored.settings.address
    again = await kept.streams.set_stream(TENANT, "mail", msgspec.structs.replace(secret, only=False))
    assert again is not None and again.generation == 1, "the same address seals differently each time"
    assert [each.settings.address for each in await kept.streams.stream_queues()] == ["redis://:s3cret@a/0"]
    plain = sealed(store, Sealer([]))
    assert [each.settings.address for each in await plain.streams.stream_queues()] == [UNREADABLE]


async def test_content_of_carried_runs_is_sealed_for_tenants_that_ask_for_it(store: Store) -> None:
    kept = sealed(store, Sealer([("k", bytes(32))]))
    await kept.tenants.update_tenant(TENANT, TenantChange(encrypt_args=True))
    worker = await hand(store)
    (run,) = await kept.streams.carry(TENANT, [job_at(START, args=b'{"card":"4111"}')])
    assert is_sealed(run.args)
    end = CarriedEnd(run, run.due, result=b'"4111"', logs=b'["4111"]')
    await kept.streams.end_carried(worker.id, [end])
    raw, opened = await store.reads.run(TENANT, run.run_id), await kept.reads.run(TENANT, run.run_id)
    assert b"4111" not in b"".join([raw.args, raw.result or b"", raw.attempts[0].logs or b""])
    assert (opened.args, opened.result, opened.attempts[0].logs) == (b'{"card":"4111"}', b'"4111"', b'["4111"]')


# Pruning.


async def test_spent_ids_are_kept_while_a_stream_may_hold_their_messages(store: Store, time: Time) -> None:
    worker, oldest = await hand(store, DAY * 30), START

    async def oldest_message() -> datetime | None:
        return oldest

    def pruner(knows: bool = True) -> Pruner:
        days = {"retention": 30 * DAY, "dead_letter_retention": DAY, "idempotency_retention": DAY}
        return Pruner(store, **days, oldest_message=oldest_message if knows else None)

    run = carried()
    await store.streams.set_stream(TENANT, "mail", REDIS)
    await store.streams.end_carried(worker.id, ends([run]))
    time.advance(days=4)
    waiting = carried(START)
    await pruner(knows=False).tick()
    await pruner().tick()
    refused = await store.streams.end_carried(worker.id, ends([run, waiting]))
    assert refused == {run.run_id}, "a message of that day waits in a stream"
    oldest = START + 2 * DAY
    await pruner().tick()
    assert await store.streams.end_carried(worker.id, ends([carried(START)])) != frozenset()
    assert (await store.reads.counts()).history == 2


async def test_without_streams_days_are_forgotten_by_age(store: Store, time: Time) -> None:
    worker = await hand(store, DAY * 30)
    time.advance(days=4)
    await Pruner(store, retention=30 * DAY, dead_letter_retention=DAY, idempotency_retention=DAY).tick()
    run = carried(START)
    assert await store.streams.end_carried(worker.id, ends([run])) == {run.run_id}


async def test_a_repeated_request_is_not_stored_where_it_may_be_in_a_stream(store: Store) -> None:
    """Its server stood still after it had read the kinds, and the queue went to a stream meanwhile."""
    before, request, later, landing = (
        msgspec.structs.replace(job(schedule, idempotency_key=key), by_nonce=True, lands=key == "landing")
        for key, schedule in (("before", NOW), ("late", NOW), ("later", Once(delay=HOUR)), ("landing", NOW))
    )
    [first] = await store.intake.submit(TENANT, [before])
    await store.streams.set_stream(TENANT, "default", StreamSettings("redis://localhost"))
    with pytest.raises(StoreUnavailable, match="'default' goes through a stream now"):
        await store.intake.submit(TENANT, [later, request])
    assert await store.intake.known_keys(TENANT, [("i", "late"), ("i", "later")], certain=True) == frozenset()
    again, *others = await store.intake.submit(TENANT, [before, later, landing])
    assert (again.job_id, again.replayed) == (first.job_id, True) and len(others) == 2
    await store.streams.set_stream(TENANT, "default", None)
    with pytest.raises(StoreUnavailable):
        await store.intake.submit(TENANT, [request])
