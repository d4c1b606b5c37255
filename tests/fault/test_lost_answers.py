"""The network takes an answer away after the database has done what was asked."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duetime.engine.intake import prepare
from duetime.engine.reaper import judge
from duetime.model.job import DEFAULT_TENANT
from duetime.model.run import RunState
from duetime.store.postgres import PostgresStore
from duetime.worker import worker as worker_module
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.proxy import Proxy, proxy_to
from tests.support.waiting import eventually

RUNS = 30


@pytest.fixture
async def proxy(database: str) -> AsyncIterator[Proxy]:
    async with proxy_to(database) as proxy:
        yield proxy


@pytest.mark.parametrize("statement", ["duetime.claim(", "duetime.succeed_runs("])
async def test_a_lost_answer_leaves_no_run_behind_and_runs_none_twice(
    database: str, proxy: Proxy, statement: str
) -> None:
    """The lease is an hour: only the numbered claim can bring the runs back."""
    started: list[int] = []

    async def note(number: int) -> None:
        started.append(number)

    direct, store = PostgresStore(database), PostgresStore(proxy.dsn)
    await direct.open()
    await direct.migrate()
    await store.open()
    hour = timedelta(hours=1)
    worker = Worker(
        StoreSource(store), {"note": define("note", note)}, WorkerLimits(slots=RUNS, lease=hour, heartbeat=hour / 4)
    )
    working = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: worker.id)
        proxy.lose_answer_to(statement)
        jobs = [prepare(task="note", args={"number": number}, max_payload=1000) for number in range(RUNS)]
        await direct.intake.submit(DEFAULT_TENANT, jobs)

        async def all_over() -> bool:
            counts = await direct.reads.counts()
            return (counts.runs, counts.history) == (0, RUNS)

        await eventually(all_over)
        assert proxy.lost == 1
        assert sorted(started) == list(range(RUNS))
        async with direct.database.connection() as connection:
            assert await connection.fetchval("select count(*) from duetime.claims") == 0
    finally:
        worker.stop()
        await working
        await store.close()
        await direct.close()


async def test_a_worker_that_stops_hands_back_what_it_does_not_know_it_has_claimed(
    database: str, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to its claim never comes, then it is told to stop: the runs wait again, and none counts as lost."""
    monkeypatch.setattr(worker_module, "_STOP_DEADLINE", 3.0)
    started: list[int] = []

    async def note(number: int) -> None:
        started.append(number)

    direct, store = PostgresStore(database), PostgresStore(proxy.dsn)
    await direct.open()
    await direct.migrate()
    await store.open()
    hour = timedelta(hours=1)
    limits = WorkerLimits(slots=RUNS, lease=hour, heartbeat=hour / 4)
    worker = Worker(StoreSource(store), {"note": define("note", note)}, limits)
    working = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: worker.id)
        proxy.lose_answer_to("duetime.claim(", silently=True)
        jobs = [prepare(task="note", args={"number": number}, max_payload=1000) for number in range(RUNS)]
        answers = await direct.intake.submit(DEFAULT_TENANT, jobs)
        await eventually(lambda: proxy.lost)
    finally:
        worker.stop()
        await working
    runs = [await direct.reads.run(DEFAULT_TENANT, answer.run_id) for answer in answers if answer.run_id is not None]
    assert {run.state for run in runs} == {RunState.PENDING}
    assert any(run.fence for run in runs), "some were claimed"
    assert await direct.reaping.reap(100, judge, hour) == 0
    assert {(run.attempt, run.lost, run.attempts) for run in runs} == {(0, 0, ())}
    assert started == []
    await store.close()
    await direct.close()
