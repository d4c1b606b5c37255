"""Steady: submitting in batches of 500 by one process, and claiming and completing by another, as duetime does; in an
embedded file, which has one writer, one after the other. From the first batch to the last completion, without waiting
for a clock."""

import asyncio
import sqlite3
import sys
import time
import uuid
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg

from bench.limits.drain import BATCH, SQLITE_TABLES, drain_pinned, fill_pinned, run_pinned_sqlite, submit_pinned_sqlite

_WARM = 10_000
_ROOT = Path(__file__).parents[2]


async def steady_postgres(dsn: str, runs: int) -> float:
    """Runs a second, submitted and run."""
    working = await asyncpg.connect(dsn)
    runs = runs // BATCH * BATCH
    try:
        # Plans of a table that has been filled once, and none that walks it: in between it is all but empty.
        await working.execute("set enable_seqscan = off; set enable_hashjoin = off; set enable_mergejoin = off")
        await fill_pinned(working, _WARM)
        await drain_pinned(working, _WARM)
        async with _submitting(dsn, runs) as process, asyncio.TaskGroup() as group:
            group.create_task(_ends_well(process))
            rate = group.create_task(_rate(process, working, runs))
        return rate.result()
    finally:
        await working.execute("drop schema pinned cascade")
        await working.close()


async def _rate(process: Process, working: "asyncpg.Connection[Any]", runs: int) -> float:
    assert process.stdin is not None
    began = time.perf_counter()
    process.stdin.write(b"go\n")
    await drain_pinned(working, runs)
    return runs / (time.perf_counter() - began)


@asynccontextmanager
async def _submitting(dsn: str, runs: int) -> AsyncIterator[Process]:
    """The process that submits, connected and waiting for a line."""
    command = (sys.executable, "-m", "bench.limits.submitting", dsn, str(runs), str(BATCH))
    process = await asyncio.create_subprocess_exec(*command, cwd=_ROOT, stdin=PIPE, stdout=PIPE)
    assert process.stdout is not None
    try:
        if await process.stdout.readline() != b"ready\n":
            raise RuntimeError("the process that submits did not start")
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _ends_well(process: Process) -> None:
    """Or what waits for its jobs would wait for ever."""
    if code := await process.wait():
        raise RuntimeError(f"the process that submits ended with {code}")


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
