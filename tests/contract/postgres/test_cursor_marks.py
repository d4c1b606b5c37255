"""The low-water mark of cursors: a scan reads what is there, not what was fired, and no cursor is hidden below it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import date, timedelta
from uuid import UUID

import asyncpg
import pytest

from duetime.clock import monotonic
from duetime.model.edit import Changes
from duetime.model.firing import SetAside
from duetime.model.job import NewJob, Options, encode_options
from duetime.model.policy import Misfire
from duetime.model.schedule import Cron, Every, Once, make_exclusion
from duetime.store.postgres import PostgresStore, marks
from duetime.store.postgres.marks import BEGINNING
from tests.contract.hands import TENANT, fire, job, submit
from tests.contract.worlds import START, PostgresTime, PostgresWorld, execute
from tests.support.plans import Reads

Session = asyncpg.Connection
MINUTE = timedelta(minutes=1)
SOON = timedelta(seconds=5)
"""Within the look-ahead: a cursor that would have been in view for ten seconds."""


@pytest.fixture
async def another(world: PostgresWorld) -> AsyncIterator["Session[asyncpg.Record]"]:
    connection = await asyncpg.connect(world.dsn)
    yield connection
    await connection.close()


@pytest.fixture(autouse=True)
def no_full_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The safety net would find everything in the end: these tests do without."""
    monkeypatch.setattr(marks, "_FULL_LOOK_PAUSE", 3600.0)


async def settle(store: PostgresStore, time: PostgresTime) -> None:
    """Let time go by, so that the mark is near to now."""
    store.context.cursor_marks._full_look_at = monotonic() + 3600
    for _ in range(3):
        time.advance(seconds=5)
        await fire(store)
    assert store.context.cursor_marks[0] >= time.now - timedelta(seconds=7)


async def test_an_empty_scan_reads_nothing_of_what_was_fired_under_a_held_snapshot(
    store: PostgresStore, session: "Session[asyncpg.Record]", another: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    await submit(store, *(job(Every(MINUTE)) for _ in range(100)))
    async with session.transaction(isolation="repeatable_read"):
        await session.fetchval("select count(*) from duetime.cursors")
        for _ in range(30):
            time.advance(minutes=1)
            assert (await fire(store)).fired == 100
        await settle(store, time)
        reads = Reads(store)
        before = await reads.now()
        for _ in range(10):
            assert (await fire(store)).seen == 0
        async with store.database.connection() as connection:
            await connection.execute("update duetime.cursors set missed = missed")
        delta = await reads.since(before, "cursors updated")
    assert delta["cursors_in_view read"] <= 10 * 110, "each scan sees the next cursor, and some that were moved last"


Write = Callable[[PostgresStore, PostgresTime, UUID], Awaitable[object]]


async def put_earlier(store: PostgresStore, time: PostgresTime, job_id: UUID) -> None:
    await store.control.edit_job(TENANT, job_id, Changes(schedule=Every(SOON, time.now)))


async def move_once(store: PostgresStore, time: PostgresTime, job_id: UUID) -> None:
    await store.control.edit_job(TENANT, job_id, Changes(schedule=Once(at=START)))


async def test_a_job_that_is_due_soon_is_seen_at_once(store: PostgresStore, time: PostgresTime) -> None:
    await settle(store, time)
    await submit(store, job(Every(SOON)))
    assert (await fire(store)).fired == 1


async def test_a_job_that_is_resumed_is_seen_at_once(store: PostgresStore, time: PostgresTime) -> None:
    paused = await submit(store, job(Every(MINUTE)))
    aside = await submit(store, job(Every(MINUTE), options=encode_options(Options(misfire=Misfire("all")))))
    await store.control.pause_job(TENANT, paused.job_id)
    time.advance(minutes=1)
    await fire(store, planned=lambda due, _: [SetAside(each.job_id, "unreadable") for each in due])
    time.advance(minutes=5)
    await settle(store, time)
    for submitted in (paused, aside):
        await store.control.resume_job(TENANT, submitted.job_id)
        assert (await fire(store)).fired == 1


@pytest.mark.parametrize("write", [put_earlier, move_once])
async def test_a_job_that_is_edited_is_seen_at_once(store: PostgresStore, time: PostgresTime, write: Write) -> None:
    first: NewJob = job(Once(delay=timedelta(hours=5)))
    await submit(store, first)
    await settle(store, time)
    await write(store, time, first.id)
    assert (await fire(store)).fired == 1


async def test_a_job_whose_calendar_gives_it_back_is_seen_at_once(store: PostgresStore, time: PostgresTime) -> None:
    await store.calendars.set_calendar(TENANT, "feasts", (START.date(), date(2030, 1, 1)))
    await submit(store, job(Cron("* * * * *", exclude=make_exclusion(calendars=["feasts"]))))
    time.advance(seconds=35)
    await settle(store, time)
    await store.calendars.set_calendar(TENANT, "feasts", ())
    assert (await fire(store)).fired == 1


async def test_a_cursor_that_another_zone_database_moves_is_seen_at_once(
    world: PostgresWorld, store: PostgresStore, time: PostgresTime
) -> None:
    submitted = await submit(store, job(Cron("* * * * *", "Europe/Berlin")))
    await store.recompute.recompute_zones("one", 10)
    await world.misplace(submitted.job_id, START + timedelta(hours=1))
    time.advance(seconds=40)
    await settle(store, time)
    await store.recompute.recompute_zones("two", 10)
    assert (await fire(store)).fired == 1


async def test_a_callers_transaction_that_commits_late_is_seen_at_once(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    await submit(store, job(Every(timedelta(hours=9))))
    async with session.transaction():
        submitted = await store.caller_transactions.submit_within(session, TENANT, job())
        for _ in range(5):
            time.advance(minutes=1)
            assert (await fire(store)).fired == 0
        assert store.context.cursor_marks[0] <= START
    assert (await fire(store)).fired == 1
    assert len(await store.reads.runs_of_job(TENANT, submitted)) == 1


async def test_a_callers_transaction_counts_though_none_that_began_after_it_has_ended(
    store: PostgresStore,
    session: "Session[asyncpg.Record]",
    another: "Session[asyncpg.Record]",
    time: PostgresTime,
) -> None:
    """The upper bound of a snapshot is one above the last transaction that has ended: the caller's is not below it."""
    await submit(store, job(Every(timedelta(hours=9))))
    await settle(store, time)
    moves_time = another.transaction()
    await moves_time.start()
    await another.execute("update public.standing_clock set moment = moment + interval '1 minute'")
    async with session.transaction():
        await store.caller_transactions.submit_within(session, TENANT, job())
        await moves_time.commit()
        for _ in range(3):
            assert (await fire(store)).fired == 0
    assert (await fire(store)).fired == 1


async def test_what_is_fired_late_is_seen_again_at_once(store: PostgresStore, time: PostgresTime) -> None:
    """A job that fires every second moves its cursor to a moment that has passed when it is written."""
    await submit(store, job(Every(timedelta(seconds=1))))
    for _ in range(20):
        time.advance(seconds=1)
        assert (await fire(store)).fired == 1


async def test_the_mark_is_forgotten_when_the_clock_is_put_back(store: PostgresStore, time: PostgresTime) -> None:
    await submit(store, job(Every(timedelta(hours=9))))
    time.advance(hours=1)
    await settle(store, time)
    time.advance(minutes=-30)
    await submit(store, job(Every(SOON)))
    await fire(store)
    assert (await fire(store)).fired == 1


async def test_a_cursor_that_another_node_holds_is_not_passed(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    time.advance(minutes=1)
    transaction = session.transaction()
    await transaction.start()
    await session.execute("update duetime.cursors set scan_at = scan_at + interval '1 hour'")
    for _ in range(4):
        time.advance(seconds=5)
        assert (await fire(store)).seen == 0
    await transaction.rollback()
    assert (await fire(store)).fired == 1
    assert (await store.reads.job(TENANT, submitted.job_id)).made == 1


async def test_a_full_look_finds_what_was_written_below_the_mark(
    world: PostgresWorld, store: PostgresStore, time: PostgresTime
) -> None:
    submitted = await submit(store, job(Every(timedelta(hours=9))))
    time.advance(minutes=5)
    await settle(store, time)
    past = "update duetime.cursors set scan_at = %s, next_fire_at = %s where job_id = %s"
    execute(world.dsn, past, START, START + MINUTE, submitted.job_id)
    assert (await fire(store)).seen == 0
    store.context.cursor_marks._full_look_at = monotonic()
    assert (await store.firing.fire_due(1, lambda due, now: [])).seen == 1
    assert store.context.cursor_marks[0] == START, "and goes back to it"
    assert (await fire(store)).fired == 1
    assert store.context.cursor_marks[0] > BEGINNING
