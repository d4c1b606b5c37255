"""Every session locks runs in the order of their ids; one that holds many does not wait for one; no deadlock reaches
the caller.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest

from duetime.model.attempt import Claimed, RunNote
from duetime.model.job import JobState, Options, encode_options
from duetime.model.run import RunState
from duetime.model.schedule import Every
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.completing import apply
from duetime.store.postgres.database import SQL
from duetime.store.postgres.freed_runs import end_freed
from duetime.store.shared.pausing import JobIsHeld
from tests.contract.hands import LEASE, TENANT, Hand, failed, fire, hand, job, reap, retried, submit, succeeded
from tests.contract.worlds import PostgresTime, PostgresWorld
from tests.support.waiting import eventually

Session = asyncpg.Connection
DAY = timedelta(days=1)
MINUTE = timedelta(minutes=1)
REPLACE = encode_options(Options(overlap="replace"))
_HOLD = "select 1 from duetime.runs where id = $1 for update"
_WAITING = "select count(*) from pg_locks where not granted"
_TWO_WAITING = f"select ({_WAITING}) > 1"
_SUSPECT = "insert into duetime.suspects values ($1, 'greet', $2, 1, duetime.clock(), duetime.clock())"
AT_MOST_ONCE = encode_options(Options(at_most_once=True))


@pytest.fixture
async def another(world: PostgresWorld) -> AsyncIterator["Session[asyncpg.Record]"]:
    connection = await asyncpg.connect(world.dsn)
    yield connection
    await connection.close()


WAYS: dict[str, Callable[[Hand, list[Claimed]], Awaitable[object]]] = {
    "succeed": lambda worker, runs: worker.succeed(*runs),
    "end": lambda worker, runs: worker.complete(*(failed(run) for run in runs)),
    "retry": lambda worker, runs: worker.complete(*(retried(run) for run in runs)),
    "end one, retry the other": lambda worker, runs: worker.complete(succeeded(runs[0]), retried(runs[1])),
    "hand back": lambda worker, runs: worker.store.completions.hand_back(
        worker.id, [(run.run_id, run.fence) for run in runs]
    ),
    "note": lambda worker, runs: worker.store.completions.note(
        worker.id, [RunNote(run.run_id, run.fence, 0.5) for run in runs]
    ),
    "cancel a job": lambda worker, runs: worker.store.control.cancel_job(TENANT, runs[0].job_id),
}


@pytest.mark.parametrize("way", WAYS)
async def test_runs_are_locked_in_the_order_of_their_ids(
    store: PostgresStore,
    session: "Session[asyncpg.Record]",
    another: "Session[asyncpg.Record]",
    time: PostgresTime,
    way: str,
) -> None:
    """Another session locks the first run: one that needs both waits for it, and does not lock the second meanwhile."""
    worker = await hand(store, DAY)
    answer = await submit(store, job(Every(DAY)))
    for nonce in (b"1", b"2"):
        await store.control.trigger_job(TENANT, answer.job_id, nonce)
    first, second = sorted(await worker.claim(), key=lambda run: run.run_id)
    time.advance(minutes=5)
    async with session.transaction():
        await session.execute(_HOLD, first.run_id)
        doing = asyncio.create_task(WAYS[way](worker, [second, first]))  # type: ignore[arg-type]
        await eventually(lambda: another.fetchval(_WAITING))
        async with another.transaction():
            await another.execute(f"{_HOLD} nowait", second.run_id)
    await asyncio.wait_for(doing, 10)


async def test_a_cancellation_that_meets_a_deadlock_is_made_again(
    store: PostgresStore,
    world: PostgresWorld,
    session: "Session[asyncpg.Record]",
    another: "Session[asyncpg.Record]",
) -> None:
    worker = await hand(store, DAY)
    answer = await submit(store, job(Every(DAY)))
    for nonce in (b"1", b"2"):
        await store.control.trigger_job(TENANT, answer.job_id, nonce)
    first, second = sorted(await worker.claim(), key=lambda run: run.run_id)
    before = await _deadlocks(another)
    # A session checks for a deadlock once, after it has waited this long. Only the cancellation may check while there
    # is one, so that it is the session that is aborted.
    await session.execute("set deadlock_timeout = '1min'")
    cancelling_store = PostgresStore(f"{world.dsn}?deadlock_timeout=3s")
    await cancelling_store.open()
    try:
        async with session.transaction():
            await session.execute(_HOLD, second.run_id)
            cancelling = asyncio.create_task(cancelling_store.control.cancel_job(TENANT, answer.job_id))
            await eventually(lambda: another.fetchval(_WAITING))
            await session.execute(_HOLD, first.run_id)  # against the order: now each waits for the other
        assert (await asyncio.wait_for(cancelling, 30)).state is JobState.CANCELLED
    finally:
        await cancelling_store.close()
    assert set(await store.leases.cancellations(worker.id)) == {first.run_id, second.run_id}
    await eventually(lambda: _more_deadlocks(another, before), what="there was a deadlock")


async def test_a_scan_does_not_wait_for_a_run_that_somebody_holds(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """A task completes its run inside a long transaction of its own while its next occurrence is to replace it."""
    worker = await hand(store, DAY)
    held = await submit(store, job(Every(MINUTE, time.now + MINUTE), options=REPLACE))
    other = await submit(store, job(Every(MINUTE, time.now + MINUTE), options=REPLACE))
    time.advance(minutes=1)
    await fire(store)
    runs = {run.job_id: run for run in await worker.claim()}
    time.advance(minutes=1)
    async with session.transaction():
        run = runs[held.job_id]
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, None, None)
        async with asyncio.timeout(5):
            scan = await fire(store)
            assert (scan.fired, scan.seen) == (1, 1)
            assert await store.leases.cancellations(worker.id) == (runs[other.job_id].run_id,)
            assert (await fire(store)).fired == 0
    scan = await fire(store)
    assert (scan.fired, scan.seen) == (1, 1)
    newest, oldest = await store.reads.runs_of_job(TENANT, held.job_id)
    assert (newest.state, oldest.state) == (RunState.PENDING, RunState.SUCCEEDED)


async def test_a_heartbeat_does_not_wait_for_a_run_that_somebody_holds(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    worker = await hand(store, DAY)
    await submit(store, job(), job())
    held, free = await worker.claim()
    time.advance(minutes=5)
    async with session.transaction():
        await session.execute(_HOLD, held.run_id)
        async with asyncio.timeout(5):
            assert (await store.leases.renew(worker.id, LEASE, [])).freed == 1
            assert await store.leases.disown(worker.id, [held.run_id]) == 0
            assert await store.completions.held_in_transactions([held.run_id, free.run_id]) == {held.run_id}
    assert await store.completions.held_in_transactions([held.run_id, free.run_id]) == frozenset()
    assert (await store.leases.renew(worker.id, LEASE, [])).freed == 1, "its claim is still there"
    assert {run.run_id for run in await worker.claim()} == {held.run_id, free.run_id}


async def test_nodes_that_count_losses_of_the_same_jobs_wait_for_each_other_in_one_order(
    store: PostgresStore,
    world: PostgresWorld,
    session: "Session[asyncpg.Record]",
    another: "Session[asyncpg.Record]",
    time: PostgresTime,
) -> None:
    """One of them clears a job of which the other counts a loss."""
    jobs = [(await submit(store, job(Every(DAY), options=AT_MOST_ONCE))).job_id for _ in range(3)]

    async def claimed(*numbers: int, nonce: bytes) -> tuple[Hand, list[Claimed]]:
        for number in numbers:
            await store.control.trigger_job(TENANT, jobs[number], nonce)
        worker = await hand(store)
        runs = await worker.claim()
        assert {run.job_id for run in runs} == {jobs[number] for number in numbers}
        return worker, runs

    await claimed(2, nonce=b"1")
    time.advance(seconds=LEASE.total_seconds() + 1)
    assert await reap(store) == 1
    time.advance(seconds=1)
    worker, runs = await claimed(2, nonce=b"2")
    await worker.complete(*map(succeeded, runs), closed=[worker.claim_no])
    await claimed(0, 1, nonce=b"3")
    time.advance(seconds=10)
    await claimed(1, 2, nonce=b"4")
    time.advance(seconds=LEASE.total_seconds() - 5)
    before = await _deadlocks(another)
    node = PostgresStore(world.dsn)
    await node.open()
    try:
        async with session.transaction():
            await session.execute(_SUSPECT, TENANT, jobs[0])
            reaping = asyncio.create_task(reap(store, 1))
            await eventually(lambda: another.fetchval(_WAITING))
            time.advance(seconds=10)
            beside = asyncio.create_task(reap(node, 1))
            await eventually(lambda: beside.done() or another.fetchval(_TWO_WAITING))
        assert await asyncio.wait_for(asyncio.gather(reaping, beside), 30) == [2, 2]
    finally:
        await node.close()
    assert await _deadlocks(another) == before
    found = await session.fetch("select job_id, losses from duetime.suspects where job_id = any($1)", jobs)
    assert {(row["job_id"], row["losses"]) for row in found} == {(jobs[0], 2), (jobs[1], 2), (jobs[2], 1)}


async def _claimed_of_job(store: PostgresStore, time: PostgresTime) -> tuple[Hand, Claimed]:
    worker = await hand(store, DAY)
    await submit(store, job(Every(MINUTE, time.now + MINUTE)))
    time.advance(minutes=1)
    await fire(store)
    return worker, await worker.claim_one()


async def test_a_pause_finds_what_comes_back_while_it_waits(
    store: PostgresStore,
    session: "Session[asyncpg.Record]",
    another: "Session[asyncpg.Record]",
    time: PostgresTime,
) -> None:
    worker, run = await _claimed_of_job(store, time)
    async with session.transaction():
        rows = await session.fetch(SQL["hand_back"], worker.id, [run.run_id], [run.fence])
        await end_freed(session, store.context.run_maker, rows)
        pausing = asyncio.create_task(store.control.pause_job(TENANT, run.job_id))
        await eventually(lambda: another.fetchval(_WAITING))
    assert (await asyncio.wait_for(pausing, 10)).made == 0
    assert await worker.claim() == []


async def test_what_comes_back_while_its_job_is_being_paused_does_not_wait_and_is_withdrawn_after_it(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """It holds its run: a pause that wanted it would wait for it in turn."""
    worker, run = await _claimed_of_job(store, time)
    pairs = [(run.run_id, run.fence)]
    async with session.transaction():
        await session.execute("select 1 from duetime.jobs for update")
        await session.execute("update duetime.jobs set state = $1", JobState.PAUSED)
        async with asyncio.timeout(5):
            with pytest.raises(JobIsHeld):
                await store.completions.hand_back(worker.id, pairs)
            with pytest.raises(JobIsHeld):
                await store.claims.release(worker.id, [worker.claim_no])
            time.advance(seconds=1)
            assert (await store.leases.renew(worker.id, timedelta(0), [])).freed == 0
    async with session.transaction():  # another worker gives a run of it back
        await session.execute("select 1 from duetime.cursors for update")
        async with asyncio.timeout(5):
            with pytest.raises(JobIsHeld):
                await store.completions.hand_back(worker.id, pairs)
    assert await store.completions.hand_back(worker.id, pairs) == 1
    assert await worker.claim() == []
    assert (await store.reads.job(TENANT, run.job_id)).made == 0


async def test_a_cancellation_that_meets_a_retry_is_not_lost(
    store: PostgresStore, session: "Session[asyncpg.Record]", another: "Session[asyncpg.Record]"
) -> None:
    """To a session that looks twice while the run changes from one to the other, it is neither waiting nor running."""
    worker = await hand(store, DAY)
    await submit(store, job())
    run = await worker.claim_one()
    async with session.transaction():
        await apply(session, worker.id, [retried(run)])
        cancelling = asyncio.create_task(store.control.cancel_run(TENANT, run.run_id))
        await eventually(lambda: another.fetchval(_WAITING))
    assert (await asyncio.wait_for(cancelling, 10)).state is RunState.CANCELLED
    assert await worker.claim() == []


async def _deadlocks(session: "Session[asyncpg.Record]") -> int:
    await session.execute("select pg_stat_clear_snapshot()")
    found: int = await session.fetchval("select deadlocks from pg_stat_database where datname = current_database()")
    return found


async def _more_deadlocks(session: "Session[asyncpg.Record]", before: int) -> bool:
    return await _deadlocks(session) > before
