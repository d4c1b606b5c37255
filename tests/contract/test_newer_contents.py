"""Rows that a newer release has written, in a form that this one does not know: they hold up no other rows."""

from datetime import timedelta
from uuid import UUID

import pytest

from duetime.model.edit import Changes
from duetime.model.job import JobState, Options, encode_options
from duetime.model.lists import JobFilter
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import Cron, encode_schedule, make_exclusion
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import START, PostgresWorld, Time, World, execute

EVERY_MINUTE = Cron("* * * * *")
MINUTE = timedelta(minutes=1)
UNKNOWN = [
    b'{"type":"moon","phase":"full"}',
    b'{"type":"cron","line":"0 9 * * FULLMOON"}',
    b'{"type":"cron","line":"0 9 * * *","zone":"Mars/Base"}',
    b"not json",
]
OPTIONS = b'{"of_the_next_release":{"a":[1]},"jitter":"often"}'


async def write(world: World, row_id: UUID, column: str, value: object, table: str = "jobs") -> None:
    if isinstance(world, PostgresWorld):
        execute(world.dsn, f"update duetime.{table} set {column} = %s where id = %s", value, row_id)
        return
    statement, values = f"update {table} set {column} = ? where id = ?", (value, row_id.bytes)
    assert isinstance(world.store, SqliteStore)
    await world.store.database.run(lambda connection, _: connection.raw.execute(statement, values))


@pytest.mark.parametrize(
    ("column", "value"), [*(("schedule", body) for body in UNKNOWN), ("options", OPTIONS), ("tier", 77)]
)
async def test_what_cannot_be_read_stops_nobody_else(
    world: World, store: Store, time: Time, column: str, value: object
) -> None:
    strange = await submit(store, job(EVERY_MINUTE))
    await submit(store, job(EVERY_MINUTE))
    await write(world, strange.job_id, column, value)
    worker = await hand(store, timedelta(minutes=10))
    time.advance(minutes=1)
    scan = await fire(store)
    assert scan.fired + len(scan.set_aside) + len(scan.passed_by) == 2
    runs = await worker.claim()
    assert len(runs) == scan.fired >= 1
    await worker.succeed(*runs)
    assert all(item.problem for item in scan.set_aside + scan.passed_by)
    time.advance(minutes=1)
    assert (await fire(store)).fired >= 1, "the other one goes on"
    await told(store, strange.job_id)


@pytest.mark.parametrize("body", UNKNOWN[:3])
async def test_what_a_newer_release_may_read_is_left_to_it(world: World, store: Store, time: Time, body: bytes) -> None:
    """During a rollout or a rollback: the job stays active, says why this node does not fire it, and loses nothing."""
    submitted = await submit(store, job(EVERY_MINUTE, options=encode_options(Options(misfire=Misfire("all")))))
    await write(world, submitted.job_id, "schedule", body)
    time.advance(minutes=3)
    scan = await fire(store)
    assert [item.job_id for item in scan.passed_by] == [submitted.job_id]
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run) == (JobState.ACTIVE, START + MINUTE)
    assert "this node leaves it to other nodes" in (found.problem or "")
    await write(world, submitted.job_id, "schedule", encode_schedule(EVERY_MINUTE))  # as the newer release reads it
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert sorted(run.due_at for run in runs) == [START + minute * MINUTE for minute in (1, 2, 3)]
    assert (await store.reads.job(TENANT, submitted.job_id)).problem is None


async def test_policies_that_a_newer_release_may_read_are_left_to_it(world: World, store: Store, time: Time) -> None:
    """Fired by the usual policies, this job would run more often than it may."""
    submitted = await submit(store, job(EVERY_MINUTE))
    await write(world, submitted.job_id, "options", b'{"max_runs":1,"overlap":"of_the_next_release"}')
    for _ in range(3):
        time.advance(minutes=1)
        assert [item.job_id for item in (await fire(store)).passed_by] == [submitted.job_id]
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.made, found.next_run) == (JobState.ACTIVE, 0, START + MINUTE)
    assert found.problem == "this node leaves it to other nodes: this release cannot read its options"
    said = Options(max_runs=1, misfire=Misfire("all"))
    await write(world, submitted.job_id, "options", encode_options(said))  # as the newer release reads them
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert [run.due_at for run in runs if run.state is RunState.PENDING] == [START + MINUTE]


async def test_a_calendar_that_changes_waits_for_a_node_that_can_read_the_job(
    world: World, store: Store, time: Time
) -> None:
    await store.calendars.set_calendar(TENANT, "feasts", ())
    noon = Cron("0 12 * * *", exclude=make_exclusion(calendars=["feasts"]))
    strange = [await submit(store, job(noon)) for _ in range(3)]
    known = await submit(store, job(noon))
    for submitted in strange:
        await write(world, submitted.job_id, "schedule", UNKNOWN[0])
    await store.calendars.set_calendar(TENANT, "feasts", [START.date()])
    assert await store.recompute.recompute_calendars(2) == 0, "it comes to rest"
    tomorrow = START + timedelta(days=1, hours=3)
    assert (await store.reads.job(TENANT, known.job_id)).next_run == tomorrow
    for submitted in strange:
        await write(world, submitted.job_id, "schedule", encode_schedule(noon))  # as the newer release reads it
    while await store.recompute.recompute_calendars(2):
        pass
    assert {(await store.reads.job(TENANT, each.job_id)).next_run for each in strange} == {tomorrow}


@pytest.mark.parametrize(
    "limits",
    [
        b'{"rate_key":"m","rate":"100/w"}',
        b'{"concurrency_key":"k","concurrency":99999999999}',
        b'{"concurrency_key":"k","concurrency":0}',
        b'{"concurrency_key":"\\u0000"}',
        b'{"breaker_key":"' + b"b" * 9000 + b'"}',
    ],
)
async def test_a_run_whose_limits_this_release_cannot_read_waits_for_a_newer_one(
    world: World, store: Store, time: Time, limits: bytes
) -> None:
    """In a rolling update an older node meets it first: it spends nothing, and holds up no other run."""
    strange = await submit(store, job(options=limits))
    after = await submit(store, job(task="count"), job(options=b'{"concurrency_key":"k"}'))
    worker = await hand(store, timedelta(days=9))
    runs = await worker.claim()
    assert len(runs) == 2
    assert after.job_id in {run.job_id for run in runs}
    await worker.succeed(*runs)
    assert strange.run_id is not None
    for late, least, most in ((0, 1, 1), (3, 1, 1), (16, 4, 6), (3600, 59, 60)):
        time.advance(seconds=late)
        assert await worker.claim() == []
        waiting = await store.reads.run(TENANT, strange.run_id)
        assert (waiting.state, waiting.attempt, waiting.fence) == (RunState.PENDING, 0, 0)
        assert waiting.message is not None
        assert waiting.message.startswith("it waits for a node of a newer release: its limits cannot be read: ")
        assert waiting.ready_at is not None
        left = (waiting.ready_at - time.now).total_seconds()
        assert least <= left <= most, "not at once, again and again"
        assert await worker.claim() == []
    assert (await store.reads.counts()).dead_letters == 0
    # A node that can read them: what is written in a newer way is the same to it as this is to us.
    await write(world, strange.run_id, "options", b'{"concurrency_key":"k"}', table="runs")
    assert await worker.claim() == []
    time.advance(seconds=61)
    run = await worker.claim_one()
    assert (run.run_id, run.attempt, run.lost) == (strange.run_id, 1, 0)
    assert (await store.reads.run(TENANT, run.run_id)).message is None


async def test_many_whose_limits_this_release_cannot_read_are_passed_by_in_one_claim(store: Store) -> None:
    await submit(store, *(job(options=b'{"rate_key":"m","rate":"100/w"}') for _ in range(50)))
    good = await submit(store, job(options=b'{"rate_key":"m","rate":"100/m"}'))
    assert [run.job_id for run in await (await hand(store)).claim(1)] == [good.job_id]
    assert (await store.reads.counts()).dead_letters == 0


async def told(store: Store, job_id: UUID) -> None:
    """It can be looked at, alone and in a list, edited and cancelled."""
    assert (await store.reads.job(TENANT, job_id)).state in (JobState.ACTIVE, JobState.PAUSED)
    assert len((await store.lists.list_jobs(TENANT, JobFilter(), None, 10)).items) == 2
    assert (await store.control.edit_job(TENANT, job_id, Changes(schedule=EVERY_MINUTE))).schedule == EVERY_MINUTE
    assert (await store.control.cancel_job(TENANT, job_id)).state is JobState.CANCELLED
