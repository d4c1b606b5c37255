"""Drains: as many runs as there are, and an error where they do not end."""

from pathlib import Path

import asyncpg
import pytest

from bench import drain, stored
from bench.drain import TASKS, fill
from bench.filled import _fill, make_due, sample
from bench.stores import migrated
from duetime.engine.scanner import Scanner
from duetime.store.postgres import PostgresStore
from duetime.store.sqlite import SqliteStore


async def test_a_drain_of_more_runs_than_there_are_fails_with_what_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drain, "STILL", 0.5)
    async with migrated(SqliteStore(tmp_path / "drain.db")) as store:
        await fill(store, 3)
        with pytest.raises(RuntimeError, match=r"3 of 5 runs were completed, and none in the last 0\.5 s"):
            await drain.drain(store, TASKS["async"], 5)


@pytest.mark.timeout(60)
async def test_what_was_fired_is_drained_whatever_it_came_to(database: str) -> None:
    """Fewer runs than jobs were fired, and some of them for the next minute."""
    await _fill(database, 4_000)
    connection = await asyncpg.connect(database)
    try:
        async with migrated(PostgresStore(database)) as filled:
            await make_due(connection, await sample(connection, 500), await filled.now())
            await Scanner(filled).tick()
            runs = "select id from duetime.runs order by id limit 100"
            await connection.execute(f"delete from duetime.runs where id in ({runs})")
            await connection.execute(
                f"update duetime.runs set ready_at = now() + interval '1 hour' where id in ({runs})"
            )
            before = await connection.fetchval("select count(*) from duetime.history")
            assert await stored._claim(filled, connection) > 0
            assert await connection.fetchval("select count(*) from duetime.history") >= before + 300
    finally:
        await connection.close()
