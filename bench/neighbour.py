"""Neighbour: one tenant has a million ready runs, another submits one each second; what each costs the other.

Compared with one tenant alone: the limit and the peers know no tenants.
"""

import asyncio
import time
from datetime import UTC, datetime

from bench.context import Bench
from bench.goals import Target
from bench.report import console
from bench.shares import share
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import NewTenant
from duetime.store.protocol import Store
from duetime.worker.context import Context
from duetime.worker.limits import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker

RUNS = 1_000_000
TARGETS = {
    ("postgres", "lag of the neighbour p95"): Target(most=1000.0),
    ("postgres", "throughput"): Target(least=90.0),
}


async def nothing(to: str) -> None:
    pass


async def run(bench: Bench) -> None:
    report = bench.report("neighbour", "% of one tenant alone")
    runs, seconds = bench.knobs.scaled(RUNS, least=5_000), 6 * bench.knobs.seconds
    report.notes |= {"ready runs of the other tenant": runs, "seconds": seconds}
    async with bench.databases.store("postgres") as store:
        await _fill(store, runs)
        alone, _ = await _measure(store, None, runs, seconds)
    async with bench.databases.store("postgres") as store:
        await _fill(store, runs)
        neighbour = (await store.create_tenant(NewTenant("neighbour"))).id
        together, lags = await _measure(store, neighbour, runs, seconds)
    console.print(f"  alone {alone:,.0f} runs/s, together {together:,.0f} runs/s", style="dim")
    report.ours("postgres", "throughput", 100 * together / alone)
    for name, place in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        report.ours("postgres", f"lag of the neighbour {name}", share(lags, place), unit="ms", better="lower")
    report.finish(TARGETS)


async def _fill(store: Store, runs: int) -> None:
    args = {"to": "x" * 190}
    for _ in range(runs // 1000):
        await store.submit(DEFAULT_TENANT, [prepare(task="nothing", args=args, max_payload=1000) for _ in range(1000)])


async def _measure(store: Store, neighbour: int | None, runs: int, seconds: float) -> tuple[float, list[float]]:
    """Runs a second over so many seconds, or until all are done; and how late the neighbour's runs were, in ms."""
    lags: list[float] = []

    async def note(ctx: Context) -> None:
        lags.append((datetime.now(UTC) - ctx.due_at).total_seconds() * 1000)

    tasks = {"nothing": define("nothing", nothing), "note": define("note", note)}
    worker = Worker(StoreSource(store), tasks, WorkerLimits(slots=1000))
    working = asyncio.create_task(worker.run())
    began = time.perf_counter()
    submitted = 0
    while worker.completed < runs and (passed := time.perf_counter() - began) < seconds:
        if neighbour is not None and submitted < passed:
            submitted += 1
            await store.submit(neighbour, [prepare(task="note", args={}, max_payload=100, tenant_id=neighbour)])
        await asyncio.sleep(0.005)
    rate = worker.completed / (time.perf_counter() - began)
    while len(lags) < submitted:
        await asyncio.sleep(0.01)
    worker.stop()
    await working
    return rate, sorted(lags)
