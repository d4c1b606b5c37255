"""Drain: ready no-op runs, through one worker process with all promises on (leases, fences, timeouts, history)."""

import asyncio
import time
from datetime import timedelta

from bench import limits
from bench.report import Report
from bench.stores import Databases
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.protocol import Store
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker, WorkerLimits

RUNS = 100_000
ROUNDS = 3
TARGETS = {"postgres": 20_000.0, "sqlite": 15_000.0}


async def nothing(to: str) -> None:
    pass


async def run(databases: Databases) -> None:
    report = Report("drain", "runs/s")
    for _ in range(ROUNDS):
        for kind in ("postgres", "sqlite"):
            async with databases.store(kind) as store:
                await _fill(store)
                report.add(kind, "ours", await _drain(store))
            if kind == "postgres":
                report.add(kind, "limit", await limits.drain_postgres(databases.postgres(), RUNS))
            else:
                report.add(kind, "limit", await asyncio.to_thread(limits.drain_sqlite, databases.file(), RUNS))
    report.finish(TARGETS)


async def _fill(store: Store) -> None:
    args = {"to": "x" * 190}
    for _ in range(RUNS // 1000):
        jobs = [
            prepare(task="nothing", args=args, max_payload=1000, timeout=timedelta(seconds=30)) for _ in range(1000)
        ]
        await store.submit(DEFAULT_TENANT, jobs)


async def _drain(store: Store) -> float:
    worker = Worker(StoreSource(store), {"nothing": define("nothing", nothing)}, WorkerLimits(slots=1000))
    began = time.perf_counter()
    working = asyncio.create_task(worker.run())
    while worker.completed < RUNS:
        await asyncio.sleep(0.005)
    rate = RUNS / (time.perf_counter() - began)
    worker.stop()
    await working
    return rate
