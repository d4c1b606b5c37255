"""A child that is submitted while its parent ends, in both orders; and settlers that meet."""

import asyncio
from datetime import timedelta

import asyncpg
import pytest

from duetime.errors import Conflict
from duetime.model.run import RunState
from duetime.model.schedule import Once
from duetime.store.postgres import PostgresStore
from tests.contract.hands import TENANT, Hand, hand, job, submit
from tests.contract.test_depending import ANY_END, child, settle, state
from tests.contract.test_graphs import DIAMOND, graph, states, work_off
from tests.support.waiting import eventually

Session = asyncpg.Connection
_WAITING = "select count(*) from pg_locks where not granted"
_SUCCEED = "select duetime.succeed_runs($1, $2, null, null, $3, '{}')"


async def somebody_waits(session: "Session[asyncpg.Record]") -> None:
    async def waiting() -> bool:
        return bool(await session.fetchval(_WAITING))

    await eventually(waiting)


async def test_an_end_that_meets_a_submission_finds_who_waits(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """The child has marked its parent and not committed; the completion waits for it, and sees the mark."""
    worker = await hand(store)
    parent = await submit(store, job())
    run = await worker.claim_one()
    async with session.transaction():
        await session.execute("update duetime.runs set followed = true where id = $1", run.run_id)
        ending = asyncio.create_task(worker.succeed(run))
        await somebody_waits(session)
        assert not ending.done()
    assert (await ending).refused == frozenset()
    assert await session.fetch("select job_id, end_state from duetime.ended") == [(parent.job_id, 4)]


async def test_a_submission_waits_for_the_fires_of_all_its_parents(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """Otherwise a parent becomes a run that is not marked as followed, and its child waits for ever."""
    later = Once(delay=timedelta(minutes=1))
    parents = sorted([(await submit(store, job(schedule=later))).job_id for _ in range(3)])
    for parent in parents:
        async with session.transaction():
            # As a scanner holds it that makes the run.
            await session.execute("select 1 from duetime.cursors where job_id = $1 for update", parent)
            submitting = asyncio.create_task(submit(store, child(*parents)))
            await somebody_waits(session)
            assert not submitting.done()
        await submitting


async def test_a_submission_that_meets_an_end_finds_it(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """The parent has ended and not committed; the child waits for that, and runs at once."""
    worker = await hand(store)
    parent = await submit(store, job())
    run = await worker.claim_one()
    async with session.transaction():
        await session.execute(_SUCCEED, [run.run_id], run.fence, worker.id)
        submitting = asyncio.create_task(submit(store, child(parent.job_id)))
        await somebody_waits(session)
        assert not submitting.done()
    dependent = await submitting
    assert dependent.next_run is not None
    assert (await worker.claim_one()).job_id == dependent.job_id


async def test_a_submission_that_meets_an_end_that_is_taken_back_waits_on(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    worker = await hand(store)
    parent = await submit(store, job())
    run = await worker.claim_one()
    transaction = session.transaction()
    await transaction.start()
    await session.execute(_SUCCEED, [run.run_id], run.fence, worker.id)
    submitting = asyncio.create_task(submit(store, child(parent.job_id)))
    await somebody_waits(session)
    await transaction.rollback()
    dependent = await submitting
    assert await state(store, dependent.job_id) is RunState.BLOCKED
    await worker.succeed(run)
    await settle(store)
    assert (await worker.claim_one()).job_id == dependent.job_id


async def test_a_waiting_parent_is_not_hidden_by_its_child(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """A claim that passes over a parent while it is held may move its mark past it: the parent is stamped anew."""
    worker = await hand(store)
    first, second = await submit(store, job()), await submit(store, job())
    async with session.transaction():
        await session.execute("select 1 from duetime.runs where job_id = $1 for update", first.job_id)
        (other,) = await worker.claim()
        assert other.job_id == second.job_id
    await submit(store, child(first.job_id))
    assert [run.job_id for run in await worker.claim()] == [first.job_id]


async def test_an_end_that_another_node_hands_on_is_passed_over(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    worker: Hand = await hand(store)
    parents = [await submit(store, job()) for _ in range(2)]
    children = [await submit(store, child(parent.job_id, rule=ANY_END)) for parent in parents]
    runs = {run.job_id: run for run in await worker.claim()}
    await worker.succeed(*runs.values())
    async with session.transaction():
        await session.execute("delete from duetime.ended where job_id = $1", parents[0].job_id)
        assert await store.graphs.settle(10) == 1
        assert [run.job_id for run in await worker.claim()] == [children[1].job_id]
        assert await store.graphs.settle(10) == 0


async def test_a_graph_runs_again_after_its_ends_that_another_node_hands_on(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    made = await store.graphs.submit_graph(TENANT, graph(*DIAMOND))
    await store.graphs.cancel_graph(TENANT, made.item.id)
    transaction = session.transaction()
    await transaction.start()
    await session.execute("delete from duetime.ended")
    again = asyncio.create_task(store.graphs.rerun_graph(TENANT, made.item.id, b"n"))
    await somebody_waits(session)
    await transaction.rollback()
    assert states(await again) == {"a": "PENDING", "b": "BLOCKED", "c": "BLOCKED", "d": "BLOCKED"}
    assert len(await work_off(store, await hand(store))) == 4


async def test_a_graph_that_runs_is_refused_however_many_ends_there_are(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """While its nodes end one after the other, there would be no end of handing on."""
    made = await store.graphs.submit_graph(TENANT, graph(("a", ""), ("b", ""), ("c", "a")))
    worker = await hand(store)
    first, _ = sorted(await worker.claim(), key=lambda run: run.job_id)
    await worker.fail(first)
    async with session.transaction():
        assert await session.fetch("select 1 from duetime.ended for update")
        async with asyncio.timeout(5):
            with pytest.raises(Conflict, match="'b' is RUNNING"):
                await store.graphs.rerun_graph(TENANT, made.item.id, b"n")
