"""Rows that a newer release has written, in a form that this one does not know: they stop nobody else."""

from datetime import timedelta
from uuid import UUID

import pytest

from duetime.model.edit import Changes
from duetime.model.failure import FailureClass
from duetime.model.job import JobState
from duetime.model.listing import JobFilter
from duetime.model.run import RunState
from duetime.model.schedule import Cron
from duetime.store.protocol import Store
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import PostgresWorld, Time, World, execute

EVERY_MINUTE = Cron("* * * * *")
UNKNOWN = [
    b'{"type":"moon","phase":"full"}',
    b'{"type":"cron","line":"0 9 * * FULLMOON"}',
    b'{"type":"cron","line":"0 9 * * *","zone":"Mars/Base"}',
    b"not json",
]
OPTIONS = b'{"of_the_next_release":{"a":[1]},"jitter":"often"}'


async def write(world: World, job_id: UUID, column: str, value: object) -> None:
    if isinstance(world, PostgresWorld):
        execute(world.dsn, f"update duetime.jobs set {column} = %s where id = %s", value, job_id)
        return
    statement, values = f"update jobs set {column} = ? where id = ?", (value, job_id.bytes)
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
    assert scan.fired + len(scan.set_aside) == 2
    runs = await worker.claim()
    assert len(runs) == scan.fired >= 1
    await worker.succeed(*runs)
    if scan.set_aside:
        assert scan.set_aside[0].problem
    time.advance(minutes=1)
    assert (await fire(store)).fired >= 1, "the other one goes on"
    await told(store, strange.job_id)


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
async def test_a_run_whose_limits_nobody_can_keep_to_fails_and_stops_nobody_else(store: Store, limits: bytes) -> None:
    strange = await submit(store, job(options=limits))
    after = await submit(store, job(task="count"), job(options=b'{"concurrency_key":"k"}'))
    worker = await hand(store)
    runs = await worker.claim()
    assert len(runs) == 2
    assert after.job_id in {run.job_id for run in runs}
    assert strange.run_id is not None
    ended = await store.run(TENANT, strange.run_id)
    assert (ended.state, ended.attempt, ended.failure) == (RunState.FAILED, 0, FailureClass.ERROR)
    assert ended.error is not None
    assert ended.error.startswith("its limits cannot be kept to: ")
    assert (await store.counts()).dead_letters == 1


async def test_many_whose_limits_nobody_can_keep_to_fail_in_one_claim(store: Store) -> None:
    await submit(store, *(job(options=b'{"rate_key":"m","rate":"100/w"}') for _ in range(50)))
    good = await submit(store, job(options=b'{"rate_key":"m","rate":"100/m"}'))
    assert [run.job_id for run in await (await hand(store)).claim(1)] == [good.job_id]
    assert (await store.counts()).dead_letters == 50


async def told(store: Store, job_id: UUID) -> None:
    """It can be looked at, alone and in a list, edited and cancelled."""
    assert (await store.job(TENANT, job_id)).state in (JobState.ACTIVE, JobState.PAUSED)
    assert len((await store.list_jobs(TENANT, JobFilter(), None, 10)).items) == 2
    assert (await store.edit_job(TENANT, job_id, Changes(schedule=EVERY_MINUTE))).schedule == EVERY_MINUTE
    assert (await store.cancel_job(TENANT, job_id)).state is JobState.CANCELLED
