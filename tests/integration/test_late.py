"""A run that was ready in time, and found no worker until it was too late."""

import asyncio
from datetime import timedelta

from duetime.clock import ManualClock
from duetime.engine.intake import prepare
from duetime.engine.scanner import plan_fires
from duetime.model.job import DEFAULT_TENANT, Options
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import make_cron
from duetime.store.sqlite import SqliteStore
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker
from tests.support.waiting import eventually


async def test_a_worker_skips_what_waited_too_long_under_misfire_skip() -> None:
    ran: list[str] = []

    async def note(name: str) -> None:
        ran.append(name)

    clock = ManualClock()
    store = SqliteStore(":memory:", clock=clock)
    await store.open()
    await store.migrate()
    line = make_cron("* * * * *", "UTC")
    policies = {"skip": Misfire("skip", after=30.0), "latest": Misfire("latest")}
    jobs = [
        prepare(task="note", args={"name": name}, max_payload=100, schedule=line, options=Options(misfire=policy))
        for name, policy in policies.items()
    ]
    await store.intake.submit(DEFAULT_TENANT, jobs)
    clock.advance(minutes=1)
    await store.firing.fire_due(100, plan_fires)
    clock.advance(hours=2)
    lease = timedelta(days=1)
    worker = Worker(StoreSource(store), {"note": define("note", note)}, WorkerLimits(lease=lease, heartbeat=lease / 4))
    working = asyncio.create_task(worker.run())
    await eventually(lambda: worker.completed == 2)
    worker.stop()
    await working
    assert ran == ["latest"]
    (skipped,) = await store.reads.runs_of_job(DEFAULT_TENANT, jobs[0].id)
    assert skipped.state is RunState.SKIPPED
    assert "late when a worker was free" in (skipped.error or "")
    await store.close()
