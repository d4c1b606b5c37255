"""Precision: a thousand runs a second, spread over time; how long after its due time each one starts.

Then a hundred a second beside the peers, which is as many as each of them can handle, planned 18 seconds ahead by one
process and run by another. The figure is the distance from the due time, because RQ starts some runs early. Peers that
poll do so ten times a second where that can be set (RQ and Huey poll once a second). Celery and `apscheduler-memory`
keep planned jobs in the memory of the process that runs them. Early starts are counted over all rounds: one is too
many. No limit: plain SQL has no due times.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from bench.context import Bench
from bench.goals import Target
from bench.peers.driver import AHEAD
from bench.report import Report, console
from bench.shares import SHARES, share
from duetime.engine.intake import prepare
from duetime.engine.scanner import Scanner
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.process.loop import Loop
from duetime.store.protocol.store import Store
from duetime.worker.capacity import WorkerLimits
from duetime.worker.context import Context
from duetime.worker.store_source import StoreSource
from duetime.worker.task import define
from duetime.worker.worker import Worker

RATE = 1_000
BESIDE_PEERS = 100
KINDS = ("postgres", "sqlite")
TARGETS = {(kind, name): Target(most=most) for kind in KINDS for name, most in (("p95", 10.0), ("p99", 30.0))}
EARLY = "started early"
TARGETS |= {(kind, EARLY): Target(most=0) for kind in KINDS}
TARGETS |= {("postgres", f"{BESIDE_PEERS} a second {EARLY}"): Target(most=0)}


async def run(bench: Bench) -> None:
    report = bench.report("precision", "ms after due", better="lower")
    rate = bench.knobs.scaled(RATE, least=50)
    report.notes["runs a second"] = rate
    early = Counter({key: 0 for key in TARGETS if key[1].endswith(EARLY)})
    for _ in range(bench.knobs.rounds):
        for kind in KINDS:
            async with bench.databases.store(kind) as store:
                lags = await measure(store, rate, bench.knobs.seconds)
            if lags[0] < 0:
                console.print(f"  a run started {-lags[0]:.3f} ms early", style="bold red")
            for name, part in SHARES:
                report.ours(kind, name, share(lags, part))
            early[kind, EARLY] += sum(lag < 0 for lag in lags)
        early["postgres", f"{BESIDE_PEERS} a second {EARLY}"] += await _beside_peers(bench, report)
    for (kind, variant), runs in early.items():  # not a median: the worst round counts, too
        report.ours(kind, variant, runs, unit="runs in all rounds")
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


async def _beside_peers(bench: Bench, report: Report) -> int:
    """How many of ours started early: all are compared by how far from its time each one starts."""
    rate, seconds = bench.knobs.scaled(BESIDE_PEERS, least=10), bench.knobs.seconds
    ours = await bench.ours.lateness(rate, seconds)
    for name, figure in _distances(ours):
        report.ours("postgres", name, figure)
    async for peer, lags in bench.peers.measured(lambda peer: peer.lateness(rate, seconds)):
        for name, figure in _distances(lags):
            report.peer("postgres", name, peer.name, figure)
    return sum(lag < 0 for lag in ours)


def _distances(lags: Sequence[float]) -> list[tuple[str, float]]:
    """Variants, and milliseconds before or after its time."""
    distances = sorted(map(abs, lags))
    return [(f"{BESIDE_PEERS} a second {name}", share(distances, part) * 1000) for name, part in SHARES]


async def measure(store: Store, rate: int, seconds: float) -> list[float]:
    """Milliseconds, sorted."""
    lags: list[float] = []

    async def note(ctx: Context) -> None:
        lags.append((datetime.now(UTC) - ctx.due_at).total_seconds() * 1000)

    worker = Worker(StoreSource(store), {"note": define("note", note)}, WorkerLimits(slots=1000))
    scanner = Loop("scanner", Scanner(store).tick)
    tasks = [asyncio.create_task(worker.run()), asyncio.create_task(scanner.run())]
    # Far enough away that every job is stored first and fired by the scanner.
    start = await store.now() + timedelta(seconds=AHEAD)
    dice = random.Random(1)
    jobs = [
        prepare(
            task="note", args={}, max_payload=100, schedule=Once(at=start + timedelta(seconds=dice.uniform(0, seconds)))
        )
        for _ in range(int(rate * seconds))
    ]
    for index in range(0, len(jobs), 1000):
        await store.intake.submit(DEFAULT_TENANT, jobs[index : index + 1000])
    while len(lags) < len(jobs):
        await asyncio.sleep(0.1)
    worker.stop()
    scanner.stop()
    await asyncio.gather(*tasks)
    return sorted(lags)
