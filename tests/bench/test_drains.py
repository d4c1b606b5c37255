"""Drains: by which clock, as many runs as there are, and an error where they do not end."""

import sqlite3
from pathlib import Path

import asyncpg
import pytest

from bench import drain, stored
from bench.drain import TASKS, fill
from bench.ended import ended_rate
from bench.filled import _fill, make_due, sample
from bench.stores import migrated
from duetime.engine.scanner import Scanner
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.bench.small import results, small_bench
from tests.support.postgres import Server


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


@pytest.mark.parametrize("kind", drain.STORES)
async def test_what_has_ended_is_counted_from_the_first_claim_to_the_last_completion(
    kind: str, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "ended.db"
    url = database if kind == "postgres" else f"sqlite:///{file}"
    at = "timestamptz 'epoch' + interval '1 second' * " if kind == "postgres" else "1000000 * "
    empty: Store = PostgresStore(database) if kind == "postgres" else SqliteStore(file)
    async with migrated(empty) as store:
        await fill(store, 6)
        await drain.drain(store, TASKS["async"], 6)
    table = "duetime.history" if kind == "postgres" else "history"
    # Claimed by two at 1 s and 2 s; completed by four at 4 s and two at 5 s, which are on their way then.
    places = f"(select count(*) from {table} x where x.run_id < {table}.run_id)"
    moved = f"update {table} set started_at = {at}(1 + {places} / 3), finished_at = {at}(4 + {places} / 4)"
    if kind == "postgres":
        connection = await asyncpg.connect(database)
        await connection.execute(
            "create table duetime.history_then partition of duetime.history"
            " for values from ('1970-01-01') to ('1970-01-02')"
        )
        await connection.execute(moved)
        await connection.close()
    else:
        with sqlite3.connect(file) as opened:
            opened.execute(moved)
        opened.close()
    assert await ended_rate(url, 6) == 4 / 4
    with pytest.raises(RuntimeError, match="6 of 7 runs are in history"):
        await ended_rate(url, 7)


@pytest.mark.parametrize("kind", drain.STORES)
async def test_a_drain_is_told_by_both_clocks(kind: str, postgres: Server, tmp_path: Path, database: str) -> None:
    variant = f"async, {drain.AS_IT_COMES} slots"
    with small_bench(postgres, tmp_path, database) as bench:
        report = bench.report("drain", "runs/s")
        report.limit(kind, "async", 1_000_000.0)
        await drain._driven(bench, report, kind, "async", 3_000, **drain.DRIVEN[variant])
        report.finish({})
    body = results(tmp_path, "drain")
    beside = body["ours_beside_limit"][kind]["async"]
    assert beside != body["ours"][kind]["async"] and body["ratio_to_limit"][kind]["async"] == beside / 1_000_000
    assert body["ours"][kind]["async, by the limit's clock"] == beside
