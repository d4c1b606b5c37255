"""Memory: a server with ten million stored jobs, after firing and serving lists; a worker with 1,000 running runs.

The maximum that each of them held at any time. Plain SQL gives no limit for a process's memory, and peers that keep
other things are not comparable.
"""

import asyncio
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import asyncpg

from bench.context import Bench
from bench.filled import make_due, sample, tidy
from bench.goals import Target
from bench.load import Connection
from bench.processes import duetime_server, duetime_worker, root_key
from bench.stores import migrated
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore

RUNNING = 1_000
TARGETS = {
    ("postgres", "server"): Target(most=250),
    ("postgres", "worker with 1,000 running"): Target(most=150),
}


async def run(bench: Bench) -> None:
    report = bench.report("memory", "MB", better="lower")
    report.notes["stored"] = bench.knobs.stored
    with bench.server_with_many() as filled:
        dsn = await filled.database(bench.knobs.stored)
        report.ours("postgres", "server", await _server(dsn, bench.knobs.scaled(20_000)))
    report.ours("postgres", "worker with 1,000 running", await _worker(bench.databases.postgres()))
    report.finish(TARGETS)


async def _server(dsn: str, due: int) -> float:
    connection = await asyncpg.connect(dsn, command_timeout=600)
    async with migrated(PostgresStore(dsn)) as store:
        key = await root_key(store)
        with duetime_server(dsn) as server:
            jobs = await sample(connection, due)
            await make_due(connection, jobs, datetime.now(UTC))
            asking = await Connection(server.url, key).open()  # after what takes longer than a server waits
            for path in ("/v1/jobs?page_size=200", "/v1/runs?page_size=200", "/v1/jobs?tag=nightly") * 20:
                await asking.get(path, {"duetime-tenant": "tenant-7"})
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                waiting = await connection.fetchval("select count(*) from duetime.cursors where scan_at <= now()")
                if not waiting:
                    break
                await asyncio.sleep(0.2)
            asking.close()
            most = server.most_memory
        await tidy(connection)
    await connection.close()
    return most


async def _worker(dsn: str) -> float:
    async with migrated(PostgresStore(dsn)) as store:
        args = {"to": "x" * 190}
        await store.intake.submit(
            DEFAULT_TENANT, [prepare(task="asleep", args=args, max_payload=1000) for _ in range(RUNNING)]
        )
        with tempfile.TemporaryDirectory() as folder, duetime_worker(dsn, Path(folder), RUNNING) as worker:
            connection = await asyncpg.connect(dsn)
            running = "select count(*) from duetime.runs where worker_id is not null"
            while await connection.fetchval(running) < RUNNING:
                await asyncio.sleep(0.1)
            await connection.close()
            await asyncio.sleep(2)
            return worker.most_memory
