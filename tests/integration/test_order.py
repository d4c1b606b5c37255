"""One slot and a heap of ready runs: they start in exactly the documented order."""

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetime.engine.intake import prepare
from duetime.ids import new_ids, show
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import Tier
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from duetime.worker.capacity import WorkerLimits
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.waiting import eventually


@pytest.fixture(params=["sqlite", "postgres"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    store: Store
    if request.param == "sqlite":
        store = SqliteStore(tmp_path / "duetime.db")
    else:
        store = PostgresStore(request.getfixturevalue("database"))
    await store.open()
    await store.migrate()
    yield store
    await store.close()


async def test_one_slot_takes_tier_then_time_then_id(store: Store) -> None:
    dice = random.Random(7)
    started: list[str] = []

    async def note(ctx: Context) -> None:
        started.append(ctx.run_id)

    tasks = {name: define(name, note) for name in ("bill", "mail", "sync")}
    submitted: list[tuple[Tier, str]] = []
    while len(submitted) < 300:
        size = dice.choice([1, 1, 2, 30])
        tiers = [dice.choice(list(Tier)) for _ in range(size)]
        jobs = [
            prepare(
                task=dice.choice(list(tasks)),
                args={},
                max_payload=100,
                tier=tier,
                queue=dice.choice(["default", "slow"]),
                job_id=job_id,
            )
            for tier, job_id in zip(tiers, new_ids(size), strict=True)
        ]
        answers = await store.intake.submit(DEFAULT_TENANT, jobs)
        submitted += [(tier, show("run", answer.run_id)) for tier, answer in zip(tiers, answers, strict=True)]  # type: ignore[arg-type]
    # In the order of submission, the runs of a tier become ready one after the other.
    expected = [run_id for tier in Tier for its_tier, run_id in submitted if its_tier is tier]

    worker = Worker(StoreSource(store), tasks, WorkerLimits(slots=1, strict=True))
    working = asyncio.create_task(worker.run())
    await eventually(lambda: len(started) == len(expected))
    worker.stop()
    await working
    assert started == expected
