"""Submit: jobs inserted into the tables of the drain, `batch` of them in a statement and a commit."""

import sqlite3
import time
from pathlib import Path
from typing import Any

import asyncpg

from bench.limits.drain import ARGS, SQLITE_TABLES, TABLES, submit_pinned_sqlite
from duetime.ids import new_ids

_INSERT = """
insert into pinned.runs (id, job_id, tenant_id, lane_id, home_lane, ready_at, due_at, args)
select i, j, 1, 1, 1, clock_timestamp(), now(), a from unnest($1::uuid[], $2::uuid[], $3::bytea[]) as x(i, j, a)
"""


async def submit_postgres(dsn: str, jobs: int, batch: int) -> float:
    """Jobs a second."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(TABLES)
        await connection.execute("checkpoint")
        began = time.perf_counter()
        await submit_pinned(connection, jobs, batch)
        return jobs / (time.perf_counter() - began)
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()


async def submit_pinned(connection: "asyncpg.Connection[Any]", jobs: int, batch: int) -> None:
    for _ in range(0, jobs, batch):
        await connection.execute(_INSERT, new_ids(batch), new_ids(batch), [ARGS] * batch)


def submit_sqlite(file: Path, jobs: int, batch: int) -> float:
    """The same in SQLite."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(SQLITE_TABLES)
    began = time.perf_counter()
    for start in range(0, jobs, batch):
        submit_pinned_sqlite(connection, start, batch)
    elapsed = time.perf_counter() - began
    connection.close()
    return jobs / elapsed
