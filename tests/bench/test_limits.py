"""The second loop of a drain: quicker statements, the same rows."""

import sqlite3
import uuid
from pathlib import Path
from typing import Any

import asyncpg

from bench import limits
from bench.limits import drain, quickest
from duetime.store.sqlite.connection import Connection

_SAME = "id, tenant_id, lane, job_id, attempt, fence, state, due_at, error, args"


async def test_the_quickest_statements_give_the_rows_of_the_pinned_ones(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await drain.fill_pinned(connection, 2_300)
        await connection.execute("create table pinned.filled as select * from pinned.runs")
        rows: list[Any] = []
        for loop in (drain.drain_pinned, quickest.drain_quickest):
            await loop(connection, 2_300)
            assert await connection.fetchval("select count(*) from pinned.runs") == 0
            assert await connection.fetchval("select count(*) from pinned.claims") == 0
            timed = "started_at is not null and finished_at is not null and worker is not null"
            rows.append(await connection.fetch(f"select {_SAME}, {timed} from pinned.history order by id"))
            await connection.execute("truncate pinned.history; insert into pinned.runs select * from pinned.filled")
        assert len(rows[0]) == 2_300 and rows[0] == rows[1]
        worker = uuid.uuid4()
        taken = [row["id"] for row in await connection.fetch(quickest._CLAIM, worker, 1, drain.EPOCH)]
        assert len(taken) == quickest.BATCH
        assert await connection.fetchval(quickest._COMPLETE, taken, 2, worker, 1) == 0  # another's fence
        assert await connection.fetchval(quickest._COMPLETE, taken, 1, uuid.uuid4(), 1) == 0  # another's runs
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()


def test_they_do_in_sqlite(tmp_path: Path) -> None:
    filled = sqlite3.connect(tmp_path / "filled.db", isolation_level=None)
    filled.executescript(drain.SQLITE_TABLES)
    drain.submit_pinned_sqlite(filled, 0, 2_300)
    rows: list[Any] = []
    for name, batch in (("pinned", drain.run_pinned_sqlite), ("quickest", quickest.run_quickest_sqlite)):
        connection = sqlite3.connect(tmp_path / f"{name}.db", isolation_level=None)
        filled.backup(connection)
        worker, done = b"w" * 16, 0
        while done < 2_300:
            done += batch(connection, worker, done)
        assert connection.execute("select count(*) from runs").fetchone() == (0,)
        assert connection.execute("select count(*) from claims").fetchone() == (0,)
        rows.append(connection.execute("select * from history order by id").fetchall())
        connection.close()
    filled.close()
    assert len(rows[0]) == 2_300 and rows[0] == rows[1]


def test_the_log_of_the_quickest_is_as_long_as_that_of_duetime(tmp_path: Path) -> None:
    ours = Connection(tmp_path / "ours.db")
    (pages,) = ours.raw.execute("pragma wal_autocheckpoint").fetchone()
    ours.raw.close()
    assert f"pragma wal_autocheckpoint = {pages};" in quickest._SQLITE_PRAGMAS


async def test_the_quickest_loops_run_at_any_size(database: str, tmp_path: Path) -> None:
    assert await limits.quickest_postgres(database, 1_700) > 0
    assert limits.quickest_sqlite(tmp_path / "drain.db", 1_700) > 0
