"""Submit: jobs created through the Python API into each store, and over HTTP into PostgreSQL.

A separate process submits, as for the peers. Single: `App.submit`, one at a time, each committed before the next. Bulk:
`App.submit_many`, 1,000 in a transaction. HTTP single: one job per request over 64 connections; HTTP bulk: 5,000 jobs
per request, NDJSON, over 4. Both use one server process, and the raw framework as the limit.
"""

import asyncio
import time

import msgspec

from bench import limits
from bench.context import Bench
from bench.goals import Target
from bench.load import Connection
from bench.peers.peer import Peer
from bench.processes import duetime_server, echo_server, root_key
from bench.report import Report, console
from bench.stores import migrated
from duetime.store.postgres import PostgresStore

STORES = ("postgres", "sqlite")
BATCH, HTTP_BATCH = 1_000, 5_000
CALLERS, BULK_CALLERS = 64, 4
TARGETS = {("postgres", "http single"): Target(least=1_500), ("postgres", "http bulk"): Target(least=15_000)}

JOB = msgspec.json.encode({"task": "nothing", "args": {"to": "x" * 190}, "run_in": "1d"})
LINES = b"\n".join([JOB] * HTTP_BATCH)
NDJSON = "application/x-ndjson"


async def run(bench: Bench) -> None:
    report = bench.report("submit", "jobs/s")
    singles = bench.knobs.scaled(3_000)
    bulk = bench.knobs.scaled(100_000, least=BATCH) // BATCH * BATCH
    requests, batches = bench.knobs.scaled(6_000), bench.knobs.scaled(16, least=4)
    for _ in range(bench.knobs.rounds):
        for kind in STORES:
            report.ours(kind, "single", await bench.driven(kind).submit(singles, bulk=False))
            report.ours(kind, "bulk", await bench.driven(kind).submit(bulk, bulk=True))
            await _limits(bench, report, kind, singles, bulk)
        await _over_http(bench, report, requests, batches)
        await _peers(bench, report)
    report.finish(TARGETS, unavailable=bench.peers.unavailable, failed=bench.peers.failed)


async def _limits(bench: Bench, report: Report, kind: str, singles: int, bulk: int) -> None:
    for variant, count, batch in (("single", singles, 1), ("bulk", bulk, BATCH)):
        if kind == "postgres":
            figure = await limits.submit_postgres(bench.databases.postgres(), count, batch)
        else:
            figure = await asyncio.to_thread(limits.submit_sqlite, bench.databases.file(), count, batch)
        report.limit(kind, variant, figure)


async def _over_http(bench: Bench, report: Report, requests: int, batches: int) -> None:
    dsn = bench.databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        key = await root_key(store)
        with duetime_server(dsn) as server:
            before = server.cpu
            report.ours("postgres", "http single", await _single(server.url, key, requests))
            console.print(f"    {(server.cpu - before) / requests * 1e6:.0f} µs of CPU for each", style="dim")
            report.ours("postgres", "http bulk", await _bulk(server.url, key, batches))
        assert (await store.reads.counts()).jobs == requests + batches * HTTP_BATCH
    with echo_server() as server:
        report.limit("postgres", "http single", await _single(server.url, key, requests))
        report.limit("postgres", "http bulk", await _bulk(server.url, key, batches))


async def _peers(bench: Bench, report: Report) -> None:
    async def measure(peer: Peer) -> tuple[float, float]:
        single = await peer.submit(bench.knobs.scaled(1_000), bulk=False)
        return single, await peer.submit(bench.knobs.scaled(max(2_000, peer.drains // 4)), bulk=True)

    async for peer, (single, bulk) in bench.peers.measured(measure):
        for kind in STORES:
            report.peer(kind, "single", peer.name, single)
            report.peer(kind, "bulk", peer.name, bulk)


async def _single(url: str, key: str, requests: int) -> float:
    return await send(url, key, "/v1/jobs", JOB, "application/json", requests, CALLERS)


async def _bulk(url: str, key: str, batches: int) -> float:
    return HTTP_BATCH * await send(url, key, "/v1/jobs/batch", LINES, NDJSON, batches, BULK_CALLERS)


async def send(url: str, key: str, path: str, body: bytes, media: str, count: int, callers: int) -> float:
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
