"""Neighbour: one tenant has a million ready runs, another submits one each second; what each costs the other."""

import asyncio
import time
from datetime import UTC, datetime

from bench.report import Report, console
from bench.stores import Databases
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.model.tenant import NewTenant
from duetime.store.protocol import Store
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker, WorkerLimits

RUNS = 1_000_000
SECONDS = 60
ROUNDS = 1
TARGETS = {"p95 lag of the neighbour, ms": 1000.0, "throughput, % of one tenant alone": 90.0}


async def nothing(to: str) -> None:
    pass


async def run(databases: Databases) -> None:
    lag = Report("neighbour lag", "ms", better="lower")
    share = Report("neighbour", "%")
    for _ in range(ROUNDS):
        async with databases.store("postgres") as store:
            await _fill(store)
            alone, _ = await _measure(store, None)
        async with databases.store("postgres") as store:
            await _fill(store)
            neighbour = (await store.create_tenant(NewTenant("neighbour"))).id
            together, lags = await _measure(store, neighbour)
        console.print(f"  alone {alone:,.0f} runs/s, together {together:,.0f} runs/s", style="dim")
        share.add("throughput, % of one tenant alone", "ours", 100 * together / alone)
        for name, place in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
            lag.add(f"{name} lag of the neighbour, ms", "ours", lags[min(len(lags) - 1, int(place * len(lags)))])
    lag.finish(TARGETS)
    share.finish(TARGETS)


async def _fill(store: Store) -> None:
    args = {"to": "x" * 190}
    for _ in range(RUNS // 1000):
        await store.submit(DEFAULT_TENANT, [prepare(task="nothing", args=args, max_payload=1000) for _ in range(1000)])


async def _measure(store: Store, neighbour: int | None) -> tuple[float, list[float]]:
    """Runs a second over as many seconds, or until all are done; and how late the neighbour's runs were, in ms."""
    lags: list[float] = []

    async def note(ctx: Context) -> None:
        lags.append((datetime.now(UTC) - ctx.due_at).total_seconds() * 1000)

    tasks = {"nothing": define("nothing", nothing), "note": define("note", note)}
    worker = Worker(StoreSource(store), tasks, WorkerLimits(slots=1000))
    working = asyncio.create_task(worker.run())
    began = time.perf_counter()
    submitted = 0
    while worker.completed < RUNS and (passed := time.perf_counter() - began) < SECONDS:
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
