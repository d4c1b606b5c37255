"""Fire: one node turns due recurring jobs into runs: it computes next fires, moves cursors and inserts runs.

Once with all jobs due at the same instant, where jobs with one cron line share a next fire; and once with each at its
own instant. No peers: those with recurring jobs fire them one by one, from memory.
"""

import asyncio
import sqlite3
import time
from pathlib import Path

import asyncpg

from bench import limits
from bench.context import Bench
from bench.goals import Target
from bench.report import Report
from bench.stores import migrated
from duetime.engine.intake import prepare
from duetime.engine.scanner import Scanner
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.support.texts import cron_lines

ONE, MANY = "recurring", "recurring, at different instants"
TARGETS = {("postgres", ONE): Target(least=12_000)}

_POSTGRES_DUE = {
    ONE: "update duetime.cursors set next_fire_at = now(), scan_at = now()",
    MANY: "update duetime.cursors set next_fire_at = now() - random() * interval '10 s', scan_at = now()",
}
_SQLITE_DUE = {
    ONE: "update cursors set next_fire_at = ?1, scan_at = ?1 - 15000000",
    MANY: "update cursors set next_fire_at = ?1 - abs(random()) % 10000000, scan_at = ?1 - 15000000",
}


async def run(bench: Bench) -> None:
    report = bench.report("fire", "jobs/s")
    jobs = bench.knobs.scaled(50_000)
    report.notes["jobs"] = jobs
    for _ in range(bench.knobs.rounds):
        await _limits(bench, report, jobs)
        for variant in (ONE, MANY):
            await _postgres(bench, report, jobs, variant)
            await _sqlite(bench, report, jobs // 2, variant)
    report.finish(TARGETS)


async def _limits(bench: Bench, report: Report, jobs: int) -> None:
    postgres = await limits.fire_postgres(bench.databases.postgres(), jobs)
    sqlite = await asyncio.to_thread(limits.fire_sqlite, bench.databases.file(), jobs // 2)
    for variant in (ONE, MANY):
        report.limit("postgres", variant, postgres)
        report.limit("sqlite", variant, sqlite)


async def _postgres(bench: Bench, report: Report, jobs: int, variant: str) -> None:
    dsn = bench.databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        await submit_recurring(store, jobs)
        connection = await asyncpg.connect(dsn)
        await connection.execute(_POSTGRES_DUE[variant])
        await connection.execute("vacuum analyze duetime.cursors")
        await connection.execute("checkpoint")
        await connection.close()
        report.ours("postgres", variant, await fire_all(store, jobs))


async def _sqlite(bench: Bench, report: Report, jobs: int, variant: str) -> None:
    file: Path = bench.databases.file()
    async with migrated(SqliteStore(file)) as store:
        await submit_recurring(store, jobs)
    # The file belongs to its store while that is open.
    with sqlite3.connect(file) as connection:
        connection.execute(_SQLITE_DUE[variant], (int(time.time() * 1e6),))
    connection.close()
    async with migrated(SqliteStore(file)) as store:
        report.ours("sqlite", variant, await fire_all(store, jobs))


async def submit_recurring(store: Store, count: int) -> None:
    lines = cron_lines(1_000)
    for start in range(0, count, 1000):
        jobs = [
            prepare(task="nothing", args={"to": "x" * 190}, max_payload=1000, schedule=lines[number % len(lines)])
            for number in range(start, min(count, start + 1000))
        ]
        await store.intake.submit(DEFAULT_TENANT, jobs)


async def fire_all(store: Store, count: int) -> float:
    """Jobs fired a second, by the scanner of one node."""
    scanner = Scanner(store)
    began = time.perf_counter()
    while await scanner.tick() == 0.0:
        pass
    elapsed = time.perf_counter() - began
    fired = (await store.reads.counts()).runs
    assert fired >= count, f"{fired} of {count} were fired"
    return count / elapsed
