"""Latency: from submitting to an idle worker until the task begins. In one process, and across processes.

No limit: a loop of plain SQL has no idle worker to wake.
"""

import asyncio
import time

from bench.context import Bench
from bench.goals import Target
from bench.shares import share
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.protocol.store import Store
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker

GAP = 0.05
TARGETS = {
    ("postgres", "one process p50"): Target(most=4.0),
    ("sqlite", "one process p50"): Target(most=4.0),
    ("postgres", "across processes p50"): Target(most=8.0),
}


async def run(bench: Bench) -> None:
    report = bench.report("latency", "ms", better="lower")
    seconds = bench.knobs.seconds
    for _ in range(bench.knobs.rounds):
        for kind in ("postgres", "sqlite"):
            async with bench.databases.store(kind) as store:
                lags = await _in_one_process(store, int(seconds / GAP))
            for name, part in (("p50", 0.5), ("p95", 0.95)):
                report.ours(kind, f"one process {name}", share(lags, part) * 1000)
        lags = sorted(await bench.ours.lags(1 / GAP / 2, seconds))
        for name, part in (("p50", 0.5), ("p95", 0.95)):
            report.ours("postgres", f"across processes {name}", share(lags, part) * 1000)
        async for peer, found in bench.peers.measured(lambda peer: peer.lags(1 / GAP / 2, seconds)):
            for name, part in (("p50", 0.5), ("p95", 0.95)):
                report.peer("postgres", f"across processes {name}", peer.name, share(sorted(found), part) * 1000)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


async def _in_one_process(store: Store, count: int) -> list[float]:
    began = asyncio.Event()
    started_at = 0.0

    async def note(to: str) -> None:
        nonlocal started_at
        started_at = time.perf_counter()
        began.set()

    worker = Worker(StoreSource(store), {"note": define("note", note)}, WorkerLimits(slots=100))
    working = asyncio.create_task(worker.run())
    lags = []
    for number in range(count + 5):
        await asyncio.sleep(GAP)
        began.clear()
        job = prepare(task="note", args={"to": "x" * 190}, max_payload=1000)
        sent = time.perf_counter()
        await store.intake.submit(DEFAULT_TENANT, [job])
        await asyncio.wait_for(began.wait(), 30)
        if number >= 5:  # the first ones find everything cold
            lags.append(started_at - sent)
    worker.stop()
    await working
    return sorted(lags)
