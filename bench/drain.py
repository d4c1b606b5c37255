"""Drain: ready no-op runs through one worker process with all guarantees on (leases, fences, timeouts, history).

duetime is driven like its peers: one process submits, then a worker process starts and records the start of each run.
The time counts from the first start to the last (for APScheduler, which submits and works in one process, from the
moment at which it may begin). An embedded file uses one process for both. The time of the limit includes its first
claim and its last completion. For the comparison with it, duetime is also timed from its first claim to its last
completion, by the times in its history. Each ratio to the limit uses that figure, which has its own rows ("by the
limit's clock"). The limit is pinned and does not include later improvements of duetime. A second loop uses the
statements, batches and connection settings that duetime has now; the row that names it is compared with that loop and
has no target.

Every system uses the best of the settings that were tried. For duetime this is a worker with 3,000 slots, which claims
1,000 runs at once. Other rows show 1,000 slots, which claim 500, as many as the limit does; the default of 200 slots;
and a worker with 1,000 slots inside the measuring process, which records no starts and is timed from its own start to
its last completion. Plain functions in threads and processes are compared with the peers that run those.
"""

import asyncio
import os
import time
from datetime import timedelta

from bench import limits
from bench.context import Bench
from bench.ended import ended_rate
from bench.goals import Target
from bench.peers.names import BLOCKING_PEERS
from bench.peers.peer import settle
from bench.report import Report
from bench.stores import migrated
from bench.tasks import blocking, on_the_loop
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from duetime.worker.capacity import WorkerLimits
from duetime.worker.store_source import StoreSource
from duetime.worker.task import TaskDefinition, define
from duetime.worker.worker import Worker

STORES = ("postgres", "sqlite")
SLOTS, MANY_SLOTS = 1_000, 3_000
AS_IT_COMES = WorkerLimits().slots
INSIDE = "async, worker inside the harness"
DRIVEN = {
    "async": {"PEER_SLOTS": str(MANY_SLOTS)},
    "async, 1,000 slots": {},
    f"async, {AS_IT_COMES} slots": {"PEER_SLOTS": str(AS_IT_COMES)},
    "thread": {"PEER_TASK": "nothing_in_a_thread"},
    "process": {"PEER_TASK": "nothing_in_a_process"},
}
"""Variants by worker process, and what their driver is told."""
BY_LIMITS_CLOCK = {variant: f"{variant}, by the limit's clock" for variant in ("async", "async, 1,000 slots")}
"""Variants whose figure beside the limit has a row of its own, and that."""
BESIDE_OWN = "async, beside the loop with duetime's statements"
OWN_LOOP = "runs/s of the loop with duetime's statements"
TASKS = {
    "async": define("nothing", on_the_loop),
    "thread": define("nothing", blocking),
    "process": define("nothing", blocking, process=True),
}
STILL = 60.0
"""A worker that completes nothing for so long, in seconds, will not."""
SIZES = {"async": 100_000, "thread": 50_000, "process": 5_000}
TARGETS = {
    ("postgres", "async"): Target(of_limit=0.7, of_best_peer=1.5, stretch=50_000),
    ("postgres", "async, 1,000 slots"): Target(of_limit=0.7),
    ("sqlite", "async"): Target(of_limit=0.6),
}


async def run(bench: Bench) -> None:
    report = bench.report("drain", "runs/s")
    sizes = {variant: bench.knobs.scaled(_size(variant)) for variant in (*DRIVEN, INSIDE)}
    report.notes |= {
        "slots": MANY_SLOTS,
        "runs in a claim at most": 1_000,
        OWN_LOOP: {},
        "runs": sizes | {peer.name: bench.knobs.scaled(peer.drains) for peer in bench.peers.all()},
    }
    for _ in range(bench.knobs.rounds):
        for kind in STORES:
            await _limit(bench, report, kind, sizes)
            for variant, told in DRIVEN.items():
                await _driven(bench, report, kind, variant, sizes[variant], **told)
            report.ours(kind, INSIDE, await _inside(bench, kind, sizes[INSIDE]))
        await _peers(bench, report)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


def _size(variant: str) -> int:
    return SIZES[variant.partition(",")[0]]


async def _driven(bench: Bench, report: Report, kind: str, variant: str, runs: int, **told: str) -> None:
    peer = bench.driven(kind)
    place = peer.place()
    started = await peer.drain(runs, place, **told)
    ended = await ended_rate(place, runs)
    report.ours(kind, variant, started, beside_limit=ended)
    if variant in BY_LIMITS_CLOCK:
        report.ours(kind, BY_LIMITS_CLOCK[variant], ended)
    if variant == "async":
        report.ours(kind, BESIDE_OWN, ended)


async def _inside(bench: Bench, kind: str, runs: int) -> float:
    dsn = bench.databases.postgres() if kind == "postgres" else ""
    empty: Store = PostgresStore(dsn) if dsn else SqliteStore(bench.databases.file())
    async with migrated(empty) as store:
        await fill(store, runs)
        if dsn:
            await settle(dsn)
        return await drain(store, TASKS["async"], runs)


async def _limit(bench: Bench, report: Report, kind: str, sizes: dict[str, int]) -> None:
    """What the database allows is the same for all variants."""
    runs = sizes["async"]
    if kind == "postgres":
        pinned = await limits.drain_postgres(bench.databases.postgres(), runs)
        quickest = await limits.quickest_postgres(bench.databases.postgres(), runs)
    else:
        pinned = await asyncio.to_thread(limits.drain_sqlite, bench.databases.file(), runs)
        quickest = await asyncio.to_thread(limits.quickest_sqlite, bench.databases.file(), runs)
    for variant in (*sizes, *BY_LIMITS_CLOCK.values()):
        report.limit(kind, variant, pinned)
    report.limit(kind, BESIDE_OWN, quickest)
    report.notes[OWN_LOOP].setdefault(kind, []).append(round(quickest))


async def _peers(bench: Bench, report: Report) -> None:
    async for peer, figure in bench.peers.measured(lambda peer: peer.drain(bench.knobs.scaled(peer.drains))):
        variants = ("async", "thread", "process") if peer.name in BLOCKING_PEERS else ("async",)
        for kind in STORES:
            for variant in variants:
                report.peer(kind, variant, peer.name, figure)


async def fill(store: Store, runs: int, **more: object) -> None:
    """Ready runs, with 200 bytes of arguments and a timeout."""
    args = {"to": "x" * 190, **more}
    for start in range(0, runs, 1000):
        jobs = [
            prepare(task="nothing", args=args, max_payload=1000, timeout=timedelta(seconds=30))
            for _ in range(min(1000, runs - start))
        ]
        await store.intake.submit(DEFAULT_TENANT, jobs)


async def drain(store: Store, task: TaskDefinition, runs: int, *, name: str = "nothing", slots: int = SLOTS) -> float:
    """Runs a second by a worker inside this process."""
    limits = WorkerLimits(slots=slots, threads=32, processes=os.cpu_count() or 1)
    worker = Worker(StoreSource(store), {name: task}, limits)
    began = time.perf_counter()
    working = asyncio.create_task(worker.run())
    try:
        await _completed(worker, working, runs)
        return runs / (time.perf_counter() - began)
    finally:
        worker.stop()
        await working


async def _completed(worker: Worker, working: "asyncio.Task[None]", runs: int) -> None:
    """Wait for so many completions, for as long as there are any."""
    seen, last = 0, time.monotonic()
    while (now := worker.completed) < runs:
        if now > seen:
            seen, last = now, time.monotonic()
        elif time.monotonic() - last > STILL:
            raise RuntimeError(f"{now:,} of {runs:,} runs were completed, and none in the last {STILL:g} s")
        await asyncio.sleep(0.005)
        if working.done():
            working.result()
