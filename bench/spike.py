"""Spike: a million jobs through Redis as fast as a server takes them while no worker runs; then one worker drains them.

One server process takes 5,000 jobs per request over 4 connections. Its memory is read after the first tenth and at the
end. The queue's `max_depth` is the size of the spike, far below what Redis may use. More jobs follow until they get
429, when Redis must not be full. Every accepted run must be in history once. There is no limit of plain loops, and no
peer has a bound.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import asyncpg
import msgspec

from bench.context import Bench
from bench.goals import Target
from bench.load import Connection
from bench.peers.tally import Tally
from bench.processes import ENCRYPTION, Process, duetime_server, duetime_worker, root_key
from bench.report import Report
from bench.stores import migrated
from bench.stream_cost import ENDED, SETTLED, started
from bench.streamed import apart, through
from duetime.model.job import DEFAULT_QUEUE
from duetime.store.postgres import PostgresStore
from tests.support.redis_server import RedisServer

BATCH, CALLERS, SLOTS = 5_000, 4, 1_000
NDJSON = "application/x-ndjson"
ROOM = 1_500
"""Bytes that Redis may use for each job of the spike: several times what one needs."""
TRIES = 5
SAMPLED = 2.5
"""Seconds after which every server has read the depth again."""
TARGETS = {
    ("postgres", "server memory, growth"): Target(most=20.0),
    ("postgres", "status beyond max_depth"): Target(least=429, most=429),
    ("postgres", "Redis, part of maxmemory"): Target(most=100.0),
    ("postgres", "lost"): Target(most=0.0),
    ("postgres", "ended twice"): Target(most=0.0),
}


async def run(bench: Bench) -> None:
    report = bench.report("spike", "jobs/s")
    runs = max(2 * BATCH, bench.knobs.scaled(1_000_000) // BATCH * BATCH)
    report.notes["runs"] = runs
    most = 64 * 1024**2 + ROOM * runs
    with RedisServer(appendonly="yes", appendfsync="everysec", maxmemory=str(most)) as redis:
        dsn = bench.databases.postgres()
        async with migrated(PostgresStore(dsn)) as store:
            key = await root_key(store)
            await through(store, DEFAULT_QUEUE, apart(redis.address), max_depth=runs - 1)
        with redis.client() as client:
            empty = int(client.info("memory")["used_memory"])
            with duetime_server(dsn) as server:
                await _submit(report, server, key, runs)
                used = int(client.info("memory")["used_memory"])
                status, more = await _beyond(server, key)
                full = int(client.info("memory")["used_memory"])
        report.ours("postgres", "status beyond max_depth", status, unit="(HTTP)")
        report.ours("postgres", "Redis, per message", (used - empty) / runs, unit="bytes", better="lower")
        report.ours("postgres", "Redis, part of maxmemory", 100 * full / most, unit="%", better="lower")
        await _drain(report, dsn, runs + more)
    report.finish(TARGETS)


async def _submit(report: Report, server: Process, key: str, runs: int) -> None:
    left = iter(range(runs // BATCH))
    early = 0.0

    async def caller(connection: Connection) -> None:
        nonlocal early
        for number in left:
            await connection.ask("POST", "/v1/jobs/batch", _lines(), NDJSON)
            if not early and number >= runs // BATCH // 10:
                early = server.memory

    connections = [await Connection(server.url, key).open() for _ in range(CALLERS)]
    began = time.perf_counter()
    await asyncio.gather(*map(caller, connections))
    report.ours("postgres", "accepted", runs / (time.perf_counter() - began))
    report.ours("postgres", "server memory, growth", server.memory - early, unit="MB", better="lower")
    for connection in connections:
        connection.close()


async def _beyond(server: Process, key: str) -> tuple[int, int]:
    """The status of the first submission that is refused, and how many more jobs were accepted before it. The server's
    own worker, which runs targets, takes a few messages now and then, so the stream may be a little less deep."""
    connection = await Connection(server.url, key).open()
    status, accepted = 0, 0
    for _ in range(TRIES):
        await asyncio.sleep(SAMPLED)
        status, _ = await connection.exchange("POST", "/v1/jobs/batch", _lines(), NDJSON)
        if status != 200:
            break
        accepted += BATCH
    connection.close()
    return status, accepted


def _lines() -> bytes:
    line = msgspec.json.encode({"task": "nothing", "args": {"sent": time.time(), "to": "x" * 160}})
    return b"\n".join([line] * BATCH)


async def _drain(report: Report, dsn: str, runs: int) -> None:
    with tempfile.TemporaryDirectory(prefix="duetime-tally-") as folder:
        tally = Tally(Path(folder))
        with duetime_worker(dsn, Path(folder), SLOTS, **ENCRYPTION):
            await started(tally, runs)
            report.ours("postgres", "drained", tally.rate(), unit="runs/s")
            await asyncio.sleep(SETTLED)
    connection = await asyncpg.connect(dsn)
    ((ended, ends),) = await connection.fetch(ENDED)
    await connection.close()
    report.ours("postgres", "lost", runs - ended, unit="runs", better="lower")
    report.ours("postgres", "ended twice", ends - ended, unit="runs", better="lower")
