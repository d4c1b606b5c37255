"""Neighbour: one tenant has a million ready runs, another submits one each second; the effect of each on the other.

Also beside a tenant with 3,000 jobs that fire each second and 40,000 ready runs, without a limit on its fires: how long
the runs of others wait from their submission to their claim. There, one process fires, works and submits.

The comparison is with one tenant alone, because neither the limit nor the peers have tenants.
"""

import asyncio
import time
from datetime import UTC, datetime, timedelta

from bench.context import Bench
from bench.goals import Target
from bench.report import console
from bench.shares import share
from duetime.engine.intake import prepare
from duetime.ids import show
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import NOW, Every
from duetime.model.tenant import NO_LIMITS, NewTenant
from duetime.node.assembly import engine_loops
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.worker.capacity import WorkerLimits
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker

RUNS = 1_000_000
FIRING, READY = 3_000, 40_000
OTHERS = 5
_EACH = 0.1
"""Seconds from one submission of the others to the next."""
_WAIT = "wait beside 3,000 firing jobs"
TARGETS = {
    ("postgres", f"{_WAIT} p95"): Target(most=1000.0),
    ("sqlite", f"{_WAIT} p95"): Target(most=1000.0),
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
        neighbour = (await store.tenants.create_tenant(NewTenant("neighbour"))).id
        together, lags = await _measure(store, neighbour, runs, seconds)
    console.print(f"  alone {alone:,.0f} runs/s, together {together:,.0f} runs/s", style="dim")
    report.ours("postgres", "throughput", 100 * together / alone)
    for name, place in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        report.ours("postgres", f"lag of the neighbour {name}", share(lags, place), unit="ms", better="lower")
    firing, ready = bench.knobs.scaled(FIRING, least=100), bench.knobs.scaled(READY, least=1_000)
    for kind in ("postgres", "sqlite"):
        async with bench.databases.store(kind) as store:
            waits = await beside_firing(store, firing, ready, 2 * bench.knobs.seconds)
        for name, place in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
            report.ours(kind, f"{_WAIT} {name}", 1000 * share(waits, place), unit="ms", better="lower")
    report.finish(TARGETS)


async def _fill(store: Store, runs: int) -> None:
    args = {"to": "x" * 190}
    for _ in range(runs // 1000):
        await store.intake.submit(
            DEFAULT_TENANT, [prepare(task="nothing", args=args, max_payload=1000) for _ in range(1000)]
        )


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
            await store.intake.submit(neighbour, [prepare(task="note", args={}, max_payload=100, tenant_id=neighbour)])
        await asyncio.sleep(0.005)
    rate = worker.completed / (time.perf_counter() - began)
    while len(lags) < submitted:
        await asyncio.sleep(0.01)
    worker.stop()
    await working
    return rate, sorted(lags)


async def beside_firing(store: Store, firing: int, ready: int, seconds: float) -> list[float]:
    """How many seconds the runs of other tenants wait from their submission to their claim, beside a tenant with so
    many jobs that fire each second, and so many ready runs; shortest first."""
    noisy = (await store.tenants.create_tenant(NewTenant("noisy", limits=NO_LIMITS))).id
    others = [(await store.tenants.create_tenant(NewTenant(f"other {number}"))).id for number in range(OTHERS)]
    for schedule, count in ((NOW, ready), (Every(timedelta(seconds=1)), firing)):
        for _ in range(count // 500):
            jobs = [
                prepare(task="noise", args={}, max_payload=100, tenant_id=noisy, schedule=schedule) for _ in range(500)
            ]
            await store.intake.submit(noisy, jobs)
    submitted: dict[str, float] = {}
    claimed: dict[str, float] = {}

    async def noise() -> None:
        pass

    async def note(ctx: Context) -> None:
        claimed[ctx.job_id] = time.perf_counter()

    tasks = {"noise": define("noise", noise), "note": define("note", note)}
    worker = Worker(StoreSource(store), tasks, WorkerLimits())
    loops = engine_loops(store, Settings())
    async with asyncio.TaskGroup() as group:
        for run in (*(loop.run for loop in loops), worker.run):
            group.create_task(run())
        began = time.perf_counter()
        asking: list[asyncio.Task[None]] = []

        async def ask(tenant_id: int) -> None:
            asked = time.perf_counter()
            (job,) = await store.intake.submit(
                tenant_id, [prepare(task="note", args={}, max_payload=100, tenant_id=tenant_id)]
            )
            submitted[show("job", job.job_id)] = asked

        while (passed := time.perf_counter() - began) < seconds:
            asking.append(group.create_task(ask(others[len(asking) % OTHERS])))
            await asyncio.sleep(max(0.0, len(asking) * _EACH - passed))
        await asyncio.gather(*asking)
        while submitted.keys() - claimed.keys():
            await asyncio.sleep(0.01)
        for loop in loops:
            loop.stop()
        worker.stop()
    return sorted(claimed[job_id] - asked for job_id, asked in submitted.items())
