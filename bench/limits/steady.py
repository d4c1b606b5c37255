"""Steady: submitting in batches of 500, and claiming and completing beside it on a connection of its own; in an
embedded file, which has one writer, one after the other. From the first batch to the last completion, without waiting
for a clock."""

import asyncio
import sqlite3
import time
import uuid
from pathlib import Path

import asyncpg

from bench.limits.drain import BATCH, SQLITE_TABLES, drain_pinned, fill_pinned, run_pinned_sqlite, submit_pinned_sqlite
from bench.limits.submit import submit_pinned

_WARM = 10_000


async def steady_postgres(dsn: str, runs: int) -> float:
    """Runs a second, submitted and run."""
    submitting, working = await asyncpg.connect(dsn), await asyncpg.connect(dsn)
    runs = runs // BATCH * BATCH
    try:
        # Plans of a table that has been filled once, and none that walks it: in between it is all but empty.
        await working.execute("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")
        await fill_pinned(working, _WARM)
        await drain_pinned(working, _WARM)
        began = time.perf_counter()
        await asyncio.gather(submit_pinned(submitting, runs, BATCH), drain_pinned(working, runs))
        return runs / (time.perf_counter() - began)
    finally:
        await submitting.execute("drop schema pinned cascade")
        await submitting.close()
        await working.close()


def steady_sqlite(file: Path, runs: int) -> float:
    """The same in SQLite."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(SQLITE_TABLES)
    worker, runs = uuid.uuid4().bytes, runs // BATCH * BATCH
    began = time.perf_counter()
    for start in range(0, runs, BATCH):
        submit_pinned_sqlite(connection, start, BATCH)
        run_pinned_sqlite(connection, worker, start)
    elapsed = time.perf_counter() - began
    connection.close()
    return runs / elapsed
