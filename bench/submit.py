"""Submit: jobs created over HTTP into PostgreSQL, one server process, load from another, beside the raw framework.

Single: one job a request, 200 bytes of arguments, over 64 connections. Bulk: 5,000 jobs a request, NDJSON, over 4.
"""

import asyncio
import time

import msgspec

from bench.load import Connection
from bench.processes import duetime_server, echo_server, root_key
from bench.report import Report, console
from bench.stores import Databases
from duetime.store.postgres import PostgresStore

ROUNDS = 3
SINGLES, CALLERS = 6_000, 64
BATCHES, BATCH, BULK_CALLERS = 16, 5_000, 4
TARGETS = {"single": 1_500.0, "bulk": 15_000.0}

JOB = msgspec.json.encode({"task": "nothing", "args": {"to": "x" * 190}, "run_in": "1d"})
LINES = b"\n".join([JOB] * BATCH)
NDJSON = "application/x-ndjson"


async def run(databases: Databases) -> None:
    report = Report("submit", "jobs/s")
    for _ in range(ROUNDS):
        store = PostgresStore(dsn := databases.postgres())
        await store.open()
        await store.migrate()
        key = await root_key(store)
        with duetime_server(dsn) as server:
            before = server.cpu
            report.add("single", "ours", await _single(server.url, key))
            console.print(f"    {(server.cpu - before) / SINGLES * 1e6:.0f} µs of CPU for each", style="dim")
            report.add("bulk", "ours", await _bulk(server.url, key))
        assert (await store.counts()).jobs == SINGLES + BATCHES * BATCH
        await store.close()
        with echo_server() as server:
            report.add("single", "limit", await _single(server.url, key))
            report.add("bulk", "limit", await _bulk(server.url, key))
    report.finish(TARGETS)


async def _single(url: str, key: str) -> float:
    return await _send(url, key, "/v1/jobs", JOB, "application/json", SINGLES, CALLERS)


async def _bulk(url: str, key: str) -> float:
    return BATCH * await _send(url, key, "/v1/jobs/batch", LINES, NDJSON, BATCHES, BULK_CALLERS)


async def _send(url: str, key: str, path: str, body: bytes, media: str, count: int, callers: int) -> float:
    """Requests a second."""
    connections = [await Connection(url, key).open() for _ in range(callers)]
    left = iter(range(count))

    async def caller(connection: Connection) -> None:
        for _ in left:
            await connection.ask("POST", path, body, media)

    began = time.perf_counter()
    await asyncio.gather(*map(caller, connections))
    elapsed = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return count / elapsed
