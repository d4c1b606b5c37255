"""Autoscale: 100,000 jobs due at a full minute, out of ten million stored, and workers started from zero by the demand.

Only a server runs at first. An autoscaler asks `GET /v1/queues/default/demand` every five seconds, as KEDA does, and
starts and stops worker processes (`bench/autoscaler.py`); nothing else tells it of the herd. Lag counts from when each
run was due. With look-ahead it asks for the next minute, without it for the present only: then workers are started
when the herd waits. Two cores serve the database, the server and the workers, so a herd cannot start faster than
`drain` says. The measurement ends when the autoscaler has stopped the last worker, and fails if it does not.
"""

import asyncio
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

import asyncpg

from bench.autoscaler import Autoscaler, worker_environ
from bench.context import Bench
from bench.filled import tidy
from bench.goals import Target
from bench.load import Connection
from bench.peers.tally import Tally
from bench.processes import Process, duetime_server, root_key
from bench.report import Report, console
from bench.shares import share
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.model.schedule import Once
from duetime.store.postgres import PostgresStore

SLOTS, RATE, DURATION, MOST = 3_000, 50_000, "10ms", 4
"""What the autoscaler knows of a worker, as an operator does who has measured one: the rate is what `drain` shows here.
One-off jobs have no earlier runs to measure. And how many workers it may start."""
EVERY, STABILIZE = 5.0, 15.0
AHEAD = timedelta(seconds=75)
BATCH = 5_000
TIMEOUT = 180.0
VARIANTS = {"with look-ahead": 1, "without": 0}
"""Minutes to look ahead."""
TARGETS = {
    ("postgres", "with look-ahead p95"): Target(most=2.0),
    ("postgres", "started early"): Target(most=0),
    ("postgres", "with look-ahead: no worker left"): Target(most=60.0),
}


class Scaled(NamedTuple):
    scaler: Autoscaler
    due: float
    lags: list[float]


async def run(bench: Bench) -> None:
    report = bench.report("autoscale", "s after due", better="lower")
    herd = bench.knobs.scaled(100_000)
    report.notes |= {"stored": bench.knobs.stored, "due at once": herd, "slots of a worker": SLOTS}
    report.notes |= {"seconds between questions": EVERY, "seconds of stabilization": STABILIZE}
    early = 0
    with bench.server_with_many() as filled:
        dsn = await filled.database(bench.knobs.stored)
        for _ in range(bench.knobs.rounds):
            for name, minutes in VARIANTS.items():
                scaled = await _measure(dsn, herd, minutes)
                early += sum(lag < 0 for lag in scaled.lags)
                _tell(report, name, scaled)
    report.ours("postgres", "started early", early, unit="runs in all rounds")
    report.finish(TARGETS)


async def _measure(dsn: str, herd: int, minutes: int) -> Scaled:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    store = PostgresStore(dsn)
    await store.open()
    try:
        await tidy(connection)
        key = await root_key(store)
        await connection.execute("checkpoint")
        with tempfile.TemporaryDirectory(prefix="duetime-tally-") as folder, duetime_server(dsn) as server:
            due = await _submit(store, herd)
            return await _scale(server, key, worker_environ(dsn, Path(folder)), Tally(Path(folder)), herd, due, minutes)
    finally:
        await tidy(connection)
        await store.close()
        await connection.close()


async def _submit(store: PostgresStore, herd: int) -> float:
    """One-off jobs, so that nothing comes after them. Returns when they are due."""
    due = (datetime.now(UTC) + AHEAD + timedelta(seconds=herd / 10_000)).replace(second=0, microsecond=0)
    due += timedelta(minutes=1)
    args = {"sent": due.timestamp(), "to": "x" * 60}
    for start in range(0, herd, BATCH):
        jobs = [
            prepare(task="nothing", args=args, max_payload=1000, schedule=Once(at=due))
            for _ in range(min(BATCH, herd - start))
        ]
        await store.intake.submit(DEFAULT_TENANT, jobs)
    console.print(f"    {herd:,} are due in {(due - datetime.now(UTC)).total_seconds():.0f} s", style="dim")
    return due.timestamp()


async def _scale(
    server: Process, key: str, environ: dict[str, str], tally: Tally, herd: int, due: float, minutes: int
) -> Scaled:
    connection = await Connection(server.url, key).open()
    path = f"/v1/queues/default/demand?minutes={minutes}&lag=2s&slots={SLOTS}&rate={RATE}/s&duration={DURATION}"
    scaler = Autoscaler(connection, path, every=EVERY, stabilize=STABILIZE, most=MOST)
    scaling = asyncio.create_task(scaler.run(environ, SLOTS))
    try:
        deadline = due + TIMEOUT
        while tally.count() < herd or scaler.workers:
            if time.time() > deadline or scaling.done():
                raise RuntimeError(f"{tally.count():,} of {herd:,} runs started; {scaler.workers} workers are left")
            await asyncio.sleep(0.5)
        return Scaled(scaler, due, sorted(start - sent for sent, start in tally.starts))
    finally:
        scaling.cancel()
        await asyncio.gather(scaling, return_exceptions=True)
        connection.close()


def _tell(report: Report, name: str, scaled: Scaled) -> None:
    scaler = scaled.scaler
    for figure, part in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
        report.ours("postgres", f"{name} {figure}", share(scaled.lags, part))
    report.ours("postgres", f"{name}: first worker", scaler.steps[0][0] - scaled.due)
    report.ours("postgres", f"{name}: no worker left", scaler.steps[-1][0] - scaled.due)
    report.ours("postgres", f"{name}: workers", max(count for _, count in scaler.steps), unit="at most")
    report.ours("postgres", f"{name}: an answer", share(sorted(scaler.answered), 0.95) * 1000, unit="ms, p95")
