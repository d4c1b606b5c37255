"""Targets: signed HTTP calls and gRPC calls by one worker process, to local receivers; and a receiver that drips."""

import asyncio
import os
import time
from datetime import timedelta
from typing import Any

from bench.processes import Process, started
from bench.report import Report, console
from bench.stores import Databases
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.settings import Settings
from duetime.store.protocol import Store
from duetime.targets.checking import TargetRules
from duetime.targets.completion_link import CompletionLinks
from duetime.targets.runner import TargetRunner
from duetime.wiring import make_target_worker

RUNS, ROUNDS = 10_000, 3
DRIPPING, DRIP_SECONDS = 500, 20.0
LOCAL = ("127.0.0.0/8",)
TARGETS = {"http": 1_000.0, "grpc": 1_000.0}


async def run(databases: Databases) -> None:
    report = Report("targets", "runs/s")
    # What a busy machine distorts least: a thousand a second are within reach of one core below 1,000 µs.
    effort = Report("targets_cpu", "µs of the worker's CPU a run", better="lower")
    with started("-m", "bench.receivers", "http") as http, started("-m", "bench.receivers", "grpc") as grpc:
        for _ in range(ROUNDS):
            for kind, target in (("http", _http(http)), ("grpc", _grpc(grpc))):
                async with databases.store("postgres") as store:
                    rate, cpu = await _drain(store, target)
                    report.add(kind, "ours", rate)
                    effort.add(kind, "ours", cpu)
    report.finish(TARGETS)
    effort.finish({"http": 1_000.0, "grpc": 1_000.0})
    memory = Report("targets_memory", "MB grown while 500 calls drip", better="lower")
    with started("-m", "bench.receivers", "drip") as drip:
        async with databases.store("postgres") as store:
            memory.add("drip", "ours", await _drip(store, _http(drip)))
    memory.finish({"drip": 5.0})


def _http(receiver: Process) -> dict[str, Any]:
    return {"type": "http", "url": f"{receiver.url}/hook", "body": {"to": "x" * 190}}


def _grpc(receiver: Process) -> dict[str, Any]:
    address = receiver.url.removeprefix("http://")
    return {"type": "grpc", "address": address, "method": "shop.Greeter/Greet", "tls": False, "message": {"name": "x"}}


async def _fill(store: Store, target: dict[str, Any], count: int, settings: Settings) -> None:
    task, args = TargetRules(settings).make(target)
    for start in range(0, count, 1000):
        size = min(1000, count - start)
        await store.submit(DEFAULT_TENANT, [prepare(task=task, args=args, max_payload=10_000) for _ in range(size)])


async def _drain(store: Store, target: dict[str, Any]) -> tuple[float, float]:
    settings = Settings(allowed_networks=LOCAL, target_slots=200)
    await _fill(store, target, RUNS, settings)
    runner = TargetRunner(store, settings, CompletionLinks(store))
    worker = make_target_worker(runner, store, settings)
    before, began = time.process_time(), time.perf_counter()
    working = asyncio.create_task(worker.run())
    while worker.completed < RUNS:
        await asyncio.sleep(0.005)
    rate = RUNS / (time.perf_counter() - began)
    cpu = (time.process_time() - before) / RUNS * 1e6
    worker.stop()
    await working
    await runner.close()
    assert (await store.counts()).dead_letters == 0
    return rate, cpu


async def _drip(store: Store, target: dict[str, Any]) -> float:
    """How much the worker grows between two looks while its slots are full of calls that drip."""
    settings = Settings(allowed_networks=LOCAL, target_slots=DRIPPING, target_timeout=timedelta(seconds=60))
    await _fill(store, target, DRIPPING, settings)
    runner = TargetRunner(store, settings, CompletionLinks(store))
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
