"""Low-water marks: no run stays hidden below one."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from duetime.model.schedule import Every
from duetime.model.worker import Seat
from duetime.store.postgres import PostgresStore, marks
from duetime.store.postgres.database import SQL
from duetime.store.postgres.marks import BEGINNING, Marks
from tests.contract.hands import LEASE, TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import PostgresTime, PostgresWorld
from tests.support.waiting import eventually

Session = asyncpg.Connection
DAY = timedelta(days=1)
_WAITING = "select count(*) from pg_locks where not granted"


@pytest.fixture
async def another(world: PostgresWorld) -> AsyncIterator["Session[asyncpg.Record]"]:
    connection = await asyncpg.connect(world.dsn)
    yield connection
    await connection.close()


async def settle(store: PostgresStore, time: PostgresTime) -> None:
    """Let time go by, so that everything up to now is proven to be visible."""
    lanes = [lane.id for lane in await store.claims.lanes()]
    for _ in range(3):
        time.advance(seconds=5)
        await store.claims.look(lanes, 1)


async def test_a_submission_that_changes_nothing_holds_no_run(
    store: PostgresStore, session: "Session[asyncpg.Record]", another: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """The same again under a `key=`, in a batch that takes long: the run that waits is claimed meanwhile."""
    worker = await hand(store, DAY)
    waiting = await submit(store, job(key="same"))
    other = await submit(store, job(Every(DAY), key="other"))
    await settle(store, time)
    async with session.transaction():
        await session.execute(SQL["lock_cursor"], other.job_id)
        batch = [job(key="same"), job(Every(DAY), key="other", args=b"[2]")]
        submitting = asyncio.create_task(store.intake.submit(TENANT, batch))
        await eventually(lambda: another.fetchval(_WAITING))
        assert waiting.run_id in [run.run_id for run in await worker.claim()]
    same, _ = await submitting
    assert (same.job_id, same.run_id, same.created) == (waiting.job_id, waiting.run_id, False)


async def test_a_run_that_an_edit_held_and_left_is_not_hidden(
    store: PostgresStore, session: "Session[asyncpg.Record]", another: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """A run that was triggered by hand stays when its job is replaced; a claim has passed over it meanwhile."""
    worker = await hand(store, DAY)
    edited = await submit(store, job(Every(DAY), key="edited"))
    other = await submit(store, job(Every(DAY), key="other"))
    manual = await store.control.trigger_job(TENANT, edited.job_id, b"1")
    await settle(store, time)
    async with session.transaction():
        await session.execute(SQL["lock_cursor"], other.job_id)
        batch = [job(Every(DAY), key="edited", args=b"[2]"), job(Every(DAY), key="other", args=b"[2]")]
        submitting = asyncio.create_task(store.intake.submit(TENANT, batch))
        await eventually(lambda: another.fetchval(_WAITING))
        passing = await submit(store, job())
        assert [run.run_id for run in await worker.claim()] == [passing.run_id]
        assert manual.ready_at is not None
        (lane,) = await store.claims.lanes()
        assert store.context.marks[lane.id] > manual.ready_at
    await submitting
    assert [run.run_id for run in await worker.claim()] == [manual.id]


async def test_a_clock_that_steps_back_hides_no_run(store: PostgresStore, time: PostgresTime) -> None:
    worker = await hand(store, DAY)
    await submit(store, job())
    await worker.claim()
    await settle(store, time)
    (lane,) = await store.claims.lanes()
    time.advance(seconds=-60)
    submitted = await submit(store, job())
    assert submitted.next_run is not None
    assert submitted.next_run < store.context.marks[lane.id]
    time.advance(seconds=1)
    (sight,) = (await store.claims.look([lane.id], 10)).sights or (await store.claims.look([lane.id], 10)).sights
    assert sight.run_ids == (submitted.run_id,)
    assert [run.run_id for run in await worker.claim()] == [submitted.run_id]


async def test_what_a_look_notes_is_above_every_transaction_that_runs(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """Also above the newest, where none has ended since it began: it may have stored a run long ago."""
    await submit(store, job())
    (lane,) = await store.claims.lanes()
    await store.context.hints.close()  # what it sends would end after the transaction began
    async with session.transaction():
        number = int(await session.fetchval("select pg_current_xact_id()::text"))
        await store.claims.look([lane.id], 1)
        assert store.context.marks._notes[-1][1] > number


def test_a_full_look_is_made_in_time_and_costs_little(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(marks, "monotonic", lambda: now)
    found = Marks()
    for took, pause in ((0.0, 5.0), (0.05, 5.0), (0.2, 20.0)):
        found.full_look_took(took)
        now += pause - 0.01
        assert not found.full_look_is_due
        now += 0.01
        assert found.full_look_is_due


def test_what_one_statement_found_settled_is_not_for_another_that_is_under_way() -> None:
    """Its snapshot may be older: what was committed between the two it has not seen, and must not pass by."""
    found, start = Marks(), datetime(2026, 1, 1, tzinfo=UTC)
    first = start - timedelta(seconds=1)
    assert found.observe(start, 10, 20, found.settled) == BEGINNING
    before = found.settled
    assert found.observe(start + timedelta(seconds=1), 25, 30, before) == first
    assert found.observe(start + timedelta(seconds=0.9), 15, 22, before) == BEGINNING
    assert found.settled == first
    assert found.observe(start + timedelta(seconds=1.1), 25, 31, found.settled) == first


def test_a_clock_that_went_back_proves_nothing_any_more() -> None:
    found, start = Marks(), datetime(2026, 1, 1, tzinfo=UTC)
    found.observe(start, 10, 20, found.settled)
    before = found.settled
    found.observe(start + timedelta(seconds=1), 25, 30, before)
    assert found.settled > BEGINNING
    assert found.observe(start - timedelta(seconds=5), 40, 41, found.settled) == BEGINNING
    assert found.settled == BEGINNING


async def test_runs_that_are_on_trial_already_are_not_held_by_those_who_put_others_there(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    """Every scanner and every reaper does so in turn: a claim that passed over them would move its mark past them."""
    submitted = await submit(store, job(Every(timedelta(seconds=20))))
    time.advance(seconds=20)
    await fire(store)
    await (await hand(store)).claim_one()
    time.advance(seconds=LEASE.total_seconds() + 1)
    await reap(store)
    extra = await store.control.trigger_job(TENANT, submitted.job_id, b"1")
    await settle(store, time)
    worker = await hand(store, DAY)
    async with session.transaction():
        assert await session.execute(SQL["put_on_trial"], None) == "UPDATE 0"
        assert extra.id in [run.run_id for run in await worker.claim()]


async def test_runs_for_which_a_worker_was_gone_are_not_hidden(store: PostgresStore, time: PostgresTime) -> None:
    """A server claims for two remote workers; the lease of one of them is over."""
    gone, worker, third = await hand(store), await hand(store, DAY), await hand(store, DAY)
    await submit(store, *(job() for _ in range(10)))
    (lane,) = await store.claims.lanes()
    time.advance(seconds=LEASE.total_seconds() + 1)
    await settle(store, time)
    dealt = await store.claims.claim_many([Seat(gone.id, 1, 5), Seat(worker.id, 1, 5)], [(lane.id, 10)])
    assert [len(runs) for runs in dealt.values()] == [0, 5]
    assert len(await third.claim()) == 5
