"""Precision: a thousand runs a second, spread over time; how long after its time each one starts."""

import asyncio
import random
from datetime import UTC, datetime, timedelta

from bench.report import Report, console
from bench.stores import Databases
from duetime.engine.intake import prepare
from duetime.engine.scanner import Scanner
from duetime.loop import Loop
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.store.protocol import Store
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker, WorkerLimits

RATE = 1_000
SECONDS = 15
ROUNDS = 2
TARGETS = {"postgres p95": 50.0, "sqlite p95": 50.0}


async def run(databases: Databases) -> None:
    report = Report("precision", "ms after due", better="lower")
    for _ in range(ROUNDS):
        for kind in ("postgres", "sqlite"):
            async with databases.store(kind) as store:
                lags = await _lags(store)
            if lags[0] < 0:
                console.print(f"  a run started {-lags[0]:.3f} ms early", style="bold red")
            for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("max", 1.0)):
                report.add(f"{kind} {name}", "ours", lags[min(len(lags) - 1, int(share * len(lags)))])
    report.finish(TARGETS)


async def _lags(store: Store) -> list[float]:
    lags: list[float] = []

    async def note(ctx: Context) -> None:
        lags.append((datetime.now(UTC) - ctx.due_at).total_seconds() * 1000)

    worker = Worker(StoreSource(store), {"note": define("note", note)}, WorkerLimits(slots=1000))
    scanner = Loop("scanner", Scanner(store).tick)
    tasks = [asyncio.create_task(worker.run()), asyncio.create_task(scanner.run())]
    # Far enough away that every job is stored first and fired by the scanner.
    start = await store.now() + timedelta(seconds=18)
    dice = random.Random(1)
    jobs = [
        prepare(
            task="note", args={}, max_payload=100, schedule=Once(at=start + timedelta(seconds=dice.uniform(0, SECONDS)))
        )
        for _ in range(RATE * SECONDS)
    ]
    for index in range(0, len(jobs), 1000):
        await store.submit(DEFAULT_TENANT, jobs[index : index + 1000])
    while len(lags) < len(jobs):
        await asyncio.sleep(0.1)
    worker.stop()
    scanner.stop()
    await asyncio.gather(*tasks)
    return sorted(lags)
