"""Rows that a newer release has written, in a form that this one does not know: they stop nobody else."""

from datetime import timedelta
from uuid import UUID

import pytest

from duetime.model.edit import Changes
from duetime.model.job import JobState
from duetime.model.listing import JobFilter
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


async def told(store: Store, job_id: UUID) -> None:
    """It can be looked at, alone and in a list, edited and cancelled."""
    assert (await store.job(TENANT, job_id)).state in (JobState.ACTIVE, JobState.PAUSED)
    assert len((await store.list_jobs(TENANT, JobFilter(), None, 10)).items) == 2
    assert (await store.edit_job(TENANT, job_id, Changes(schedule=EVERY_MINUTE))).schedule == EVERY_MINUTE
    assert (await store.cancel_job(TENANT, job_id)).state is JobState.CANCELLED
