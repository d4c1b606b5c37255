"""Targets: signed HTTP calls and gRPC calls to local receivers; and a receiver that responds byte by byte.

One worker runs inside the measuring process: CPU and memory are that process's.

No peer makes such calls itself, and plain SQL makes none.
"""

import asyncio
import os
import time
from datetime import timedelta
from typing import Any

from bench.context import Bench
from bench.goals import Target
from bench.processes import ENCRYPTION, Process, started
from bench.report import console
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.node.assembly import make_target_worker
from duetime.settings import Settings
from duetime.store.protocol.store import Store
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.runner import TargetRunner
from duetime.targets.validation import TargetRules

RUNS = 10_000
DRIPPING, DRIP_SECONDS = 500, 20.0
KEYS = tuple(ENCRYPTION.values())
LOCAL = ("127.0.0.0/8",)
DRIPS = "memory grown while 500 calls drip"
TARGETS = {
    ("postgres", "http"): Target(least=1_000.0),
    ("postgres", "grpc"): Target(least=1_000.0),
    ("postgres", "http: CPU"): Target(most=1_000.0),
    ("postgres", "grpc: CPU"): Target(most=1_000.0),
    ("postgres", DRIPS): Target(most=5.0),
}


async def run(bench: Bench) -> None:
    report = bench.report("targets", "runs/s")
    runs = bench.knobs.scaled(RUNS)
    report.notes["runs"] = runs
    with started("-m", "bench.receivers", "http") as http, started("-m", "bench.receivers", "grpc") as grpc:
        for _ in range(bench.knobs.rounds):
            for kind, target in (("http", _http(http)), ("grpc", _grpc(grpc))):
                async with bench.databases.store("postgres") as store:
                    rate, cpu = await _drain(store, target, runs)
                    report.ours("postgres", kind, rate)
                    # What a busy machine distorts least: 1,000 a second are within reach of a core below 1,000 µs.
                    report.ours("postgres", f"{kind}: CPU", cpu, unit="µs of the worker's", better="lower")
    with started("-m", "bench.receivers", "drip") as drip:
        async with bench.databases.store("postgres") as store:
            report.ours("postgres", DRIPS, await _drip(store, _http(drip)), unit="MB", better="lower")
    report.finish(TARGETS)


def _http(receiver: Process) -> dict[str, Any]:
    return {"type": "http", "url": f"{receiver.url}/hook", "body": {"to": "x" * 190}}


def _grpc(receiver: Process) -> dict[str, Any]:
    address = receiver.url.removeprefix("http://")
    return {"type": "grpc", "address": address, "method": "shop.Greeter/Greet", "tls": False, "message": {"name": "x"}}


async def _fill(store: Store, target: dict[str, Any], count: int, settings: Settings) -> None:
    task, args = TargetRules(settings).make(target)
    for start in range(0, count, 1000):
        size = min(1000, count - start)
        await store.intake.submit(
            DEFAULT_TENANT, [prepare(task=task, args=args, max_payload=10_000) for _ in range(size)]
        )


async def _drain(store: Store, target: dict[str, Any], runs: int) -> tuple[float, float]:
    settings = Settings(allowed_networks=LOCAL, target_slots=200, encryption_keys=KEYS)
    await _fill(store, target, runs, settings)
    runner = TargetRunner(store, settings, CompletionLinks(store.tenants))
    worker = make_target_worker(runner, store, settings)
    before, began = time.process_time(), time.perf_counter()
    working = asyncio.create_task(worker.run())
    while worker.completed < runs:
        await asyncio.sleep(0.005)
    rate = runs / (time.perf_counter() - began)
    cpu = (time.process_time() - before) / runs * 1e6
    worker.stop()
    await working
    await runner.close()
    assert (await store.reads.counts()).dead_letters == 0
    return rate, cpu


async def _drip(store: Store, target: dict[str, Any]) -> float:
    """How much the worker grows between two looks while its slots are full of calls that drip."""
    settings = Settings(
        allowed_networks=LOCAL, target_slots=DRIPPING, target_timeout=timedelta(seconds=60), encryption_keys=KEYS
    )
    await _fill(store, target, DRIPPING, settings)
    runner = TargetRunner(store, settings, CompletionLinks(store.tenants))
    worker = make_target_worker(runner, store, settings)
    working = asyncio.create_task(worker.run())
    while worker.running < DRIPPING:
        await asyncio.sleep(0.05)
    await asyncio.sleep(5)
    this = Process(os.getpid(), "")
    before = this.memory
    await asyncio.sleep(DRIP_SECONDS)
    grown = this.memory - before
    console.print(f"    {before:.0f} MB with {worker.running} calls under way", style="dim")
    worker.stop()
    worker.stop()
    await working
    await runner.close()
    return max(grown, 0.0)
