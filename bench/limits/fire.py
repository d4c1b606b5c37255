"""Fire: due cursors moved and runs made, in batches of 1,000, on one connection. The next fire is a sum: computing it
is what the limit does not do. The ids of runs are made by the client, as duetime's are."""

import sqlite3
import time
from pathlib import Path

import asyncpg

from bench.limits.drain import ARGS, NEW_ID
from duetime.ids import new_ids

BATCH = 1_000
_FIRE_TABLES = """
drop schema if exists pinned cascade;
create schema pinned;
create table pinned.jobs (id uuid primary key, tenant_id int not null, schedule bytea not null, args bytea not null);
create table pinned.cursors (job_id uuid primary key, next_fire_at timestamptz not null) with (fillfactor = 90);
create index on pinned.cursors (next_fire_at);
create table pinned.runs (
    id uuid primary key, job_id uuid not null, tenant_id int not null, lane_id int, due_at timestamptz not null,
    ready_at timestamptz not null, args bytea) with (fillfactor = 45);
create index on pinned.runs (lane_id, ready_at, id) where lane_id is not null;
"""
_FIRE_FILL = f"""
with made as (
    insert into pinned.jobs select {NEW_ID}, 1, $2, $3 from generate_series(1, $1::int) returning id)
insert into pinned.cursors select id, now() from made
"""
_FIRE = f"""
with due as (
    select job_id, next_fire_at from pinned.cursors where next_fire_at <= now()
    order by next_fire_at limit {BATCH} for update skip locked),
moved as (
    update pinned.cursors c set next_fire_at = c.next_fire_at + interval '1 day' from due d
    where c.job_id = d.job_id returning c.job_id, d.next_fire_at),
numbered as (select job_id, next_fire_at, row_number() over () as place from moved),
made as (
    insert into pinned.runs select ($1::uuid[])[m.place], m.job_id, j.tenant_id, 1, m.next_fire_at, now(), j.args
    from numbered m join pinned.jobs j on j.id = m.job_id returning 1)
select count(*) from made
"""


async def fire_postgres(dsn: str, jobs: int) -> float:
    """Recurring jobs a second: narrow cursors moved, runs made, batches of 1,000, one connection."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.execute(_FIRE_TABLES)
        for start in range(0, jobs, 10_000):
            await connection.execute(_FIRE_FILL, min(10_000, jobs - start), b"0 9 * * *", ARGS)
        await connection.execute("vacuum analyze pinned.jobs, pinned.cursors")
        await connection.execute("checkpoint")
        done = 0
        began = time.perf_counter()
        while done < jobs:
            done += await connection.fetchval(_FIRE, new_ids(BATCH))
        return done / (time.perf_counter() - began)
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()


_SQLITE_FIRE_TABLES = """
pragma journal_mode = wal;
pragma synchronous = full;
pragma cache_size = -200000;
create table jobs (id blob primary key, tenant_id int, schedule blob, args blob);
create table cursors (job_id blob primary key, next_fire_at int) without rowid;
create index due on cursors (next_fire_at);
create table runs (
    id blob primary key, job_id blob, tenant_id int, lane_id int, due_at int, ready_at int, worker blob, args blob);
create index ready on runs (lane_id, ready_at, id) where worker is null;
"""


def fire_sqlite(file: Path, jobs: int) -> float:
    """The same in SQLite."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(_SQLITE_FIRE_TABLES)
    connection.execute("begin immediate")
    ids = new_ids(jobs)
    connection.executemany("insert into jobs values (?, 1, ?, ?)", [(each.bytes, b"0 9 * * *", ARGS) for each in ids])
    connection.execute("insert into cursors select id, 5 from jobs")
    connection.execute("commit")
    done = 0
    began = time.perf_counter()
    while done < jobs:
        connection.execute("begin immediate")
        due = connection.execute(
            f"select job_id, next_fire_at from cursors where next_fire_at <= 5 order by next_fire_at limit {BATCH}"
        ).fetchall()
        runs = new_ids(len(due))
        connection.executemany(
            "insert into runs select ?, j.id, j.tenant_id, 1, 5, 5, null, j.args from jobs j where j.id = ?",
            [(run.bytes, row[0]) for run, row in zip(runs, due, strict=True)],
        )
        connection.executemany("update cursors set next_fire_at = 86400 where job_id = ?", [(row[0],) for row in due])
        connection.execute("commit")
        done += len(due)
    elapsed = time.perf_counter() - began
    connection.close()
    return done / elapsed
