"""Breaker: four worker processes, a target that is down for a minute, 20,000 due runs: which worker calls it when.

The figures are calls and seconds of waiting, not speed: there is no limit, and no peer has breakers.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import timedelta
from pathlib import Path

from bench.context import Bench
from bench.goals import Target
from bench.processes import ENCRYPTION
from bench.report import console
from bench.stores import migrated
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.store.postgres import PostgresStore

RUNS = 20_000
WORKERS = 4
SLOTS = 500
OUTAGE = 60.0
UNITS = {
    "calls during the outage after 2 s": "% of the runs",
    "all succeeded after recovery": "s",
    "most calls in a second": "% of 20,000 in 60 s",
    "succeeded": "calls",
    "dead": "runs",
}
TARGETS = {
    ("postgres", "calls during the outage after 2 s"): Target(most=1.0),
    ("postgres", "all succeeded after recovery"): Target(most=60.0),
    ("postgres", "most calls in a second"): Target(most=200.0),
    ("postgres", "dead"): Target(most=0.0),
}


async def run(bench: Bench) -> None:
    report = bench.report("breaker", "", better="lower")
    dsn = bench.databases.postgres()
    with tempfile.TemporaryDirectory() as folder:
        async with migrated(PostgresStore(dsn)) as store:
            figures = await _measure(store, dsn, Path(folder))
    for name, figure in figures.items():
        better = "higher" if name == "succeeded" else "lower"
        report.ours("postgres", name, figure, unit=UNITS[name], better=better)
    report.finish(TARGETS)


async def _measure(store: PostgresStore, dsn: str, folder: Path) -> dict[str, float]:
    (folder / "down").touch()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DUETIME_")}
    environ = {**kept, "DUETIME_DATABASE_URL": dsn, "DUETIME_SLOTS": str(SLOTS), "DUETIME_PORT": "0"}
    environ |= {"DUETIME_CANARY": "0s", **ENCRYPTION}  # the canary would be waited for as well
    environ |= {"BENCH_FOLDER": str(folder), "DUETIME_LOG_LEVEL": "error"}
    commands = [["server"], *([["worker", "bench.breaker_app:app"]] * WORKERS)]
    processes = [_start(command, environ) for command in commands]
    try:
        while len(await store.leases.workers()) < WORKERS:
            await asyncio.sleep(0.05)
        # All of them are due at one moment, when the outage has begun.
        due_at = await store.now() + timedelta(seconds=12)
        for _ in range(RUNS // 1000):
            jobs = [prepare(task="call", args={}, max_payload=100, schedule=Once(at=due_at)) for _ in range(1000)]
            await store.intake.submit(DEFAULT_TENANT, jobs)
        began = due_at.timestamp()
        await asyncio.sleep(began + OUTAGE - time.time())
        (folder / "down").unlink()
        recovered = time.time()
        while (await store.reads.counts()).runs and time.time() < recovered + 180:
            await asyncio.sleep(0.25)
        over = time.time()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(40)
    calls = _calls(folder)
    during = sum(began + 2 < moment < recovered for moment, _ in calls)
    early = sum(moment <= began + 2 for moment, _ in calls)
    most = _most([moment for moment, _ in calls if moment > recovered])
    console.print(f"  {early} calls in the first 2 s, {during} in the rest of the outage", style="dim")
    by_second = Counter(int(moment - began) for moment, _ in calls)
    console.print(f"  by second: {dict(sorted(by_second.items()))}", style="dim")
    return {
        "calls during the outage after 2 s": 100 * during / RUNS,
        "all succeeded after recovery": over - recovered,
        "most calls in a second": 100 * most / (RUNS / 60),
        "succeeded": float(sum(succeeded for _, succeeded in calls)),
        "dead": float((await store.reads.counts()).dead_letters),
    }


def _start(command: list[str], environ: dict[str, str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "duetime.cli", *command], env=environ)


def _calls(folder: Path) -> list[tuple[float, bool]]:
    found = []
    for file in folder.glob("calls-*"):
        for line in file.read_text().splitlines():
            moment, succeeded = line.split()
            found.append((float(moment), succeeded == "1"))
    return found


def _most(moments: list[float]) -> int:
    return max(Counter(int(moment) for moment in moments).values(), default=0)
