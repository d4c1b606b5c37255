"""Limits: a second loop of a drain with quicker statements and the same rows; what fires is given its ids; who submits
has a process of his own."""

import asyncio
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from bench import limits
from bench.limits import drain, fire, quickest, steady
from duetime.ids import new_ids
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


async def test_a_fire_makes_a_run_for_each_cursor_with_the_ids_it_is_given(database: str) -> None:
    connection = await asyncpg.connect(database)
    try:
        await connection.execute(fire._FIRE_TABLES)
        await connection.execute(fire._FIRE_FILL, 1_500, b"0 9 * * *", drain.ARGS)
        given = [new_ids(fire.BATCH) for _ in range(2)]
        assert [await connection.fetchval(fire._FIRE, ids) for ids in given] == [1_000, 500]
        runs = await connection.fetch("select id, job_id, args from pinned.runs")
        assert {row["id"] for row in runs} == {*given[0], *given[1][:500]}
        assert len({row["job_id"] for row in runs}) == 1_500 and {row["args"] for row in runs} == {drain.ARGS}
        assert await connection.fetchval("select count(*) from pinned.cursors where next_fire_at <= now()") == 0
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()


async def test_a_submitter_that_ends_badly_ends_the_steady_limit(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def drained(connection: "asyncpg.Connection[Any]", _: int) -> None:
        await connection.execute("drop table pinned.runs")  # nothing to submit to
        await asyncio.Event().wait()

    filled = steady.drain_pinned

    async def warmed(connection: "asyncpg.Connection[Any]", runs: int) -> None:
        await filled(connection, runs)
        monkeypatch.setattr(steady, "drain_pinned", drained)

    monkeypatch.setattr(steady, "drain_pinned", warmed)
    with pytest.RaisesGroup(pytest.RaisesExc(RuntimeError, match="the process that submits ended with 1")):
        await limits.steady_postgres(database, 500_000)
