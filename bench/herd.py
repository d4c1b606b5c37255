"""Herd: 100,000 jobs due in the same second, out of ten million stored; with and without jitter.

A server process fires them and a worker process runs them; lag counts from when each run was due. Each herd consists of
jobs that no other round and no earlier benchmark has fired, where there are enough. They are read from disk, except
those with jitter, which were updated just before. Early starts are counted over all rounds: one is too many. No limit
and no peers: `fire` and `drain` have the limits of the two halves, and no peer keeps ten million recurring jobs.
"""

import asyncio
import random
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg

from bench.context import Bench
from bench.filled import make_due, sample, tidy, with_jitter
from bench.goals import Target
from bench.peers.tally import Tally
from bench.processes import duetime_server, duetime_worker
from bench.report import Report, console
from bench.shares import share

AHEAD = timedelta(seconds=25)
SLOTS = 3_000
JITTER = 30.0
EARLY = "started early"
TARGETS = {
    ("postgres", "all started"): Target(most=5.0),
    ("postgres", "with 30 s jitter p95"): Target(most=1.0),
    ("postgres", EARLY): Target(most=0),
}


async def run(bench: Bench) -> None:
    report = bench.report("herd", "s after due", better="lower")
    herd = bench.knobs.scaled(100_000)
    place = random.randrange(1_000_000)
    report.notes |= {"stored": bench.knobs.stored, "due at once": herd, "slots of the worker": SLOTS}
    report.notes["the place from which jobs are drawn"] = place
    with bench.server_with_many() as filled:
        dsn = await filled.database(bench.knobs.stored)
        connection = await asyncpg.connect(dsn, command_timeout=600)
        try:
            early, offset = 0, place
            for _ in range(bench.knobs.rounds):
                for jitter in (0.0, JITTER):
                    jobs = await sample(connection, herd, offset=offset)
                    offset += herd
                    lags = await _measure(dsn, connection, jobs, jitter)
                    early += sum(lag < 0 for lag in lags)
                    _tell(report, lags, jitter)
            report.ours("postgres", EARLY, early, unit="runs in all rounds")
        finally:
            await connection.close()
    report.finish(TARGETS)


async def _measure(dsn: str, connection: "asyncpg.Connection[Any]", jobs: list[UUID], jitter: float) -> list[float]:
    await tidy(connection)
    async with with_jitter(connection, jobs, jitter):
        await connection.execute("checkpoint")
        lags = await _lags_of(dsn, connection, jobs, jitter)
        await tidy(connection)
    return lags


async def _lags_of(dsn: str, connection: "asyncpg.Connection[Any]", jobs: list[UUID], jitter: float) -> list[float]:
    with (
        tempfile.TemporaryDirectory(prefix="duetime-tally-") as folder,
        duetime_server(dsn),
        duetime_worker(dsn, Path(folder), slots=SLOTS),
    ):
        due = _whole_minute(datetime.now(UTC) + AHEAD + timedelta(seconds=len(jobs) / 10_000))
        await make_due(connection, jobs, due)
        left = (due - datetime.now(UTC)).total_seconds()
        console.print(f"    {len(jobs):,} are due in {left:.0f} s", style="dim")
        return await _lags(Path(folder), len(jobs), due.timestamp(), jitter)


def _tell(report: Report, lags: Sequence[float], jitter: float) -> None:
    if jitter:
        for name, part in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
            report.ours("postgres", f"with 30 s jitter {name}", share(lags, part))
    else:
        report.ours("postgres", "all started", lags[-1])
        report.ours("postgres", "p50", share(lags, 0.5))
        report.ours("postgres", "p95", share(lags, 0.95))


def _whole_minute(after: datetime) -> datetime:
    """At another moment a job of every minute would have its own next fire right behind the one made up here."""
    return after.replace(second=0, microsecond=0) + timedelta(minutes=1)


async def _lags(folder: Path, count: int, due: float, jitter: float) -> list[float]:
    """Of the herd, not of what those jobs fire later on."""
    tally = Tally(folder)
    timeout = due - time.time() + jitter + 120
    deadline = time.monotonic() + timeout
    while True:
        # Looking through what has started costs the cores that are measured: only when it can be enough.
        if (started := tally.count()) >= count:
            herd = [start - sent for sent, start in tally.starts if due - 0.001 <= sent <= due + jitter + 0.001]
            if len(herd) >= count:
                return sorted(herd)
        if time.monotonic() > deadline:
            raise RuntimeError(f"{started:,} of {count:,} runs started within {timeout:.0f} s")
        await asyncio.sleep(0.5)
