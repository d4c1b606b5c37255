"""Drain: ready no-op runs through one worker process with all promises on (leases, fences, timeouts, history).

Ours is counted from the start of the worker to the last completion; peers from the first start to the last.
"""

import asyncio
import os
import time
from datetime import timedelta

from bench import limits
from bench.context import Bench
from bench.goals import Target
from bench.peers.environments import CannotRun
from bench.report import Report
from bench.tasks import in_a_thread, on_the_loop
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.protocol import Store
from duetime.worker.store_source import StoreSource
from duetime.worker.task import TaskDefinition, define
from duetime.worker.worker import Worker, WorkerLimits

STORES = ("postgres", "sqlite")
TASKS = {
    "async": define("nothing", on_the_loop),
    "thread": define("nothing", in_a_thread),
    "process": define("nothing", in_a_thread, process=True),
}
SIZES = {"async": 100_000, "thread": 50_000, "process": 5_000}
TARGETS = {
    ("postgres", "async"): Target(of_limit=0.7, of_best_peer=1.5),
    ("sqlite", "async"): Target(of_limit=0.6),
}


async def run(bench: Bench) -> None:
    report = bench.report("drain", "runs/s")
    sizes = {variant: bench.knobs.scaled(size) for variant, size in SIZES.items()}
    report.notes["runs"] = sizes | {peer.name: bench.knobs.scaled(peer.drains) for peer in bench.peers.all()}
    for _ in range(bench.knobs.rounds):
        for kind in STORES:
            await _limit(bench, report, kind, sizes["async"])
            for variant, task in TASKS.items():
                async with bench.databases.store(kind) as store:
                    await fill(store, sizes[variant])
                    report.ours(kind, variant, await drain(store, task, sizes[variant]))
        await _peers(bench, report)
    report.finish(TARGETS, unavailable=bench.peers.unavailable)


async def _limit(bench: Bench, report: Report, kind: str, runs: int) -> None:
    if kind == "postgres":
        report.limit(kind, "async", await limits.drain_postgres(bench.databases.postgres(), runs))
    else:
        report.limit(kind, "async", await asyncio.to_thread(limits.drain_sqlite, bench.databases.file(), runs))


async def _peers(bench: Bench, report: Report) -> None:
    for peer in bench.peers.all():
        try:
            figure = await peer.drain(bench.knobs.scaled(peer.drains))
        except CannotRun as error:
            bench.peers.drop(peer, str(error))
            continue
        for kind in STORES:
            report.peer(kind, "async", peer.name, figure)


async def fill(store: Store, runs: int) -> None:
    """Ready runs, with 200 bytes of arguments and a timeout."""
    args = {"to": "x" * 190}
    for start in range(0, runs, 1000):
        jobs = [
            prepare(task="nothing", args=args, max_payload=1000, timeout=timedelta(seconds=30))
            for _ in range(min(1000, runs - start))
        ]
        await store.submit(DEFAULT_TENANT, jobs)


async def drain(store: Store, task: TaskDefinition, runs: int, *, name: str = "nothing") -> float:
    """Runs a second."""
    limits = WorkerLimits(slots=3000, threads=32, processes=os.cpu_count() or 1)
    worker = Worker(StoreSource(store), {name: task}, limits)
    began = time.perf_counter()
    working = asyncio.create_task(worker.run())
    while worker.completed < runs:
        await asyncio.sleep(0.005)
        if working.done():
            working.result()
    rate = runs / (time.perf_counter() - began)
    worker.stop()
    await working
    return rate
