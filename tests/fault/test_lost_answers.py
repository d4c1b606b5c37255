"""The network takes an answer away after the database has done what was asked."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore
from duetime.worker.task import define
from duetime.worker.worker import Worker, WorkerLimits
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
    worker = Worker(store, {"note": define("note", note)}, WorkerLimits(slots=RUNS, lease=hour, heartbeat=hour / 4))
    working = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: worker.id)
        proxy.lose_answer_to(statement)
        jobs = [prepare(task="note", args={"number": number}, max_payload=1000) for number in range(RUNS)]
        await direct.submit(DEFAULT_TENANT, jobs)

        async def all_over() -> bool:
            counts = await direct.counts()
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
