"""Cost: what one run costs at each step of its life, in CPU, WAL, round trips and index writes; and what rows weigh.

Measured on PostgreSQL, one process, no-op runs with 200 bytes of arguments. It feeds the model of `bench.model`.
"""

import os
import re
import tempfile
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import product
from operator import sub
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import asyncpg

from bench.context import Bench
from bench.crowd import CROWDED, crowd
from bench.drain import SIZES, TASKS, drain, fill
from bench.fire import fire_all, submit_recurring
from bench.nodes import drain_by
from bench.passing import passing
from bench.processes import cpu_of, cpu_of_family, cpu_of_sessions
from bench.report import Report, console
from bench.stores import SERVER_OPTIONS, Databases, migrated
from duetime.engine.intake import prepare
from duetime.model.job import DEFAULT_TENANT
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server, installed

LANES, NODES = (1, 10, 100, 1000), (1, 2, 4)
_SMALL = ("now", "clock", "stamp", "moment")
Step = Callable[[], Awaitable[object]]

_CALLS = "select coalesce(sum(calls), 0)::bigint, coalesce(sum(total_exec_time), 0) from pg_stat_statements"
DEAREST = "select query, calls, total_exec_time from pg_stat_statements order by total_exec_time desc limit 6"
# Leaf and upper inserts, splits included: what an index costs in WAL records.
_INDEX_WRITES = """
select coalesce(sum(count), 0)::bigint from pg_get_wal_stats($1::text::pg_lsn, $2::text::pg_lsn, true)
where "resource_manager/record_type" like 'Btree/INSERT%'
"""


async def run(bench: Bench) -> None:
    report = bench.report("cost", "µs of CPU", better="lower")
    options = SERVER_OPTIONS | {"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track": "top"}
    with Server(installed()[0], settings=options) as server, tempfile.TemporaryDirectory() as folder:
        databases = Databases(server, Path(folder))
        for _ in range(bench.knobs.rounds):
            await _steps(report, databases, bench.knobs.scaled(50_000, least=2_000))
        report.notes["passing by, µs"] = await passing(databases)
        report.notes["bytes"] = await _weights_of_runs(databases, bench.knobs.scaled(50_000, least=2_000))
    with bench.server_with_many() as filled:
        report.notes["bytes"] |= await _weights_stored(await filled.database(bench.knobs.stored))
    report.notes |= {"lanes by nodes": await _sweep(bench), "rounds of lanes by nodes": bench.knobs.rounds}
    report.finish({})


async def _steps(report: Report, databases: Databases, runs: int) -> None:
    dsn = databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        meter = await Meter.open(dsn, databases, report)
        await meter.measure("submit, 1,000 at a time", runs, lambda: fill(store, runs))
        for variant, task in TASKS.items():
            count = min(runs, SIZES[variant] * runs // 50_000)
            if variant != "async":
                await fill(store, count)
            step = partial(drain, store, task, count)
            await meter.measure(f"run, {variant}", count, step, children=variant == "process")
        await fill(store, runs)
        with crowd():
            await meter.measure(CROWDED, runs, partial(drain, store, TASKS["async"], runs))
        singles = max(200, runs // 25)
        await meter.measure("submit, one at a time", singles, lambda: _submit_singles(store, singles))
        await submit_recurring(store, runs // 2)
        await meter.connection.execute("delete from duetime.runs")
        await meter.connection.execute("update duetime.cursors set next_fire_at = now(), scan_at = now()")
        await meter.measure("fire, recurring", runs // 2, lambda: fire_all(store, runs // 2))
        await meter.connection.close()


async def _submit_singles(store: PostgresStore, count: int) -> None:
    for _ in range(count):
        await store.intake.submit(DEFAULT_TENANT, [prepare(task="nothing", args={"to": "x" * 190}, max_payload=1000)])


class Meter:
    """Reads what a step used, on both sides of the wire."""

    def __init__(self, connection: "asyncpg.Connection[Any]", databases: Databases, report: Report) -> None:
        self.connection = connection
        self._server = databases.server
        self._report = report
        self._counts_calls = self._counts_writes = False

    @classmethod
    async def open(cls, dsn: str, databases: Databases, report: Report) -> "Meter":
        meter = cls(await asyncpg.connect(dsn), databases, report)
        meter._counts_calls = await meter._has("pg_stat_statements")
        meter._counts_writes = await meter._has("pg_walinspect")
        return meter

    async def measure(self, name: str, count: int, step: Step, *, children: bool = False) -> None:
        """With `children` where processes of the worker's own do a part of it."""
        await self.connection.execute("checkpoint")
        if self._counts_calls:
            await self.connection.execute("select pg_stat_statements_reset()")
        before, then = await self._lsn(), self._spent(children=children)
        await step()
        client, server, sessions = map(sub, self._spent(children=children), then)
        after = await self._lsn()
        self._say(name, "client", client / count * 1e6, "µs of CPU")
        self._say(name, "database", server / count * 1e6, "µs of CPU")
        self._say(name, "in sessions", min(sessions, server) / count * 1e6, "µs of CPU")
        wal = await self.connection.fetchval("select $2::text::pg_lsn - $1::text::pg_lsn", before, after)
        self._say(name, "WAL", float(wal) / count, "bytes")
        if self._counts_calls:
            calls, spent = (await self.connection.fetch(_CALLS))[0]
            self._say(name, "round trips", calls / count, "statements")
            self._say(name, "in statements", spent * 1000 / count, "µs")
            self._report.notes.setdefault("statements", {})[name] = {
                " ".join(query.split())[:70]: {
                    "calls": asked / count,
                    "µs": took * 1000 / count,
                    "does": function_of(query),
                }
                for query, asked, took in await self.connection.fetch(DEAREST)
            }
        if self._counts_writes:
            writes = await self.connection.fetchval(_INDEX_WRITES, before, after)
            self._say(name, "index writes", writes / count, "entries")

    def _spent(self, *, children: bool) -> tuple[float, float, float]:
        """Seconds of CPU so far: of this side, of the database, and of its sessions."""
        own = process_time()
        if children:  # the database is a child, too
            own = cpu_of_family(os.getpid()) - cpu_of(self._server.pid)
        return own, cpu_of_family(self._server.pid), cpu_of_sessions(self._server.pid)

    def _say(self, step: str, what: str, figure: float, unit: str) -> None:
        self._report.ours("postgres", f"{step}: {what}", figure, unit=unit)

    async def _lsn(self) -> str:
        return str(await self.connection.fetchval("select pg_current_wal_flush_lsn()::text"))

    async def _has(self, extension: str) -> bool:
        try:
            await self.connection.execute(f"create extension if not exists {extension}")
        except asyncpg.PostgresError as error:
            console.print(f"  {extension} is not there ({error}): what it counts is left out", style="yellow")
            return False
        return True


def function_of(query: str) -> str | None:
    """Which of duetime's functions a statement is about, from its whole text."""
    called = [name for name in re.findall(r"duetime\.(\w+)\(", query) if name not in _SMALL]
    return called[0] if called else None


async def _weights_of_runs(databases: Databases, runs: int) -> dict[str, float]:
    dsn = databases.postgres()
    async with migrated(PostgresStore(dsn)) as store:
        await fill(store, runs)
        connection = await asyncpg.connect(dsn)
        weight = await connection.fetchval("select pg_total_relation_size('duetime.runs')")
        await drain(store, TASKS["async"], runs)
        history = await connection.fetchval(
            "select sum(pg_total_relation_size(inhrelid)) from pg_inherits"
            " where inhparent = 'duetime.history'::regclass"
        )
        await connection.close()
    return {"a run that waits": weight / runs, "a run in history": float(history) / runs}


async def _weights_stored(dsn: str) -> dict[str, float]:
    connection = await asyncpg.connect(dsn)
    stored = await connection.fetchval("select stored from filled.facts")
    jobs = await connection.fetchval(
        "select pg_total_relation_size('duetime.jobs') + pg_total_relation_size('duetime.cursors')"
    )
    labels = await connection.fetchval("select pg_total_relation_size('duetime.labels')")
    rows = await connection.fetchval("select count(*) from duetime.labels")
    await connection.close()
    return {"a stored job, 80 bytes of arguments": jobs / stored, "a label of a job": labels / max(1, rows)}


async def _sweep(bench: Bench) -> dict[str, dict[str, float]]:
    """Drains by several worker processes out of several lanes, in runs a second: medians of the rounds."""
    found: dict[tuple[int, int], list[float]] = {}
    runs = bench.knobs.scaled(60_000, least=2_000)
    for _, lanes, nodes in product(range(bench.knobs.rounds), LANES, NODES):
        rate = await drain_by(bench.ours, runs, nodes, LANES=str(lanes))
        console.print(f"  {lanes} lanes, {nodes} worker processes: {rate:,.0f} runs/s", style="dim")
        found.setdefault((lanes, nodes), []).append(rate)
    return {str(lanes): {str(nodes): median(found[lanes, nodes]) for nodes in NODES} for lanes in LANES}
