"""Claim and complete: heap-only claims from one lane with fence and claims row, batches of 500, 200-byte arguments,
history written, one connection, durable commits."""

import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import asyncpg

from duetime.ids import new_ids

BATCH = 500
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ARGS = b'{"to":"' + b"x" * 190 + b'"}'

TABLES = """
drop schema if exists pinned cascade;
create schema pinned;
create table pinned.runs (
    id uuid primary key, job_id uuid not null, tenant_id int not null, lane_id int, home_lane int not null,
    fence int not null default 0, attempt smallint not null default 0, claim_no bigint, worker uuid,
    ready_at timestamptz not null, due_at timestamptz not null, started_at timestamptz, args bytea
) with (fillfactor = 45, autovacuum_vacuum_scale_factor = 0.02);
create index on pinned.runs (lane_id, ready_at, id) where lane_id is not null;
create table pinned.claims (worker uuid, claim_no bigint, run_ids uuid[], primary key (worker, claim_no));
create table pinned.history (
    id uuid not null, tenant_id int, lane int, job_id uuid, attempt smallint, fence int, state smallint,
    due_at timestamptz, started_at timestamptz, finished_at timestamptz not null, worker uuid, error text, args bytea
) partition by range (finished_at);
create table pinned.history_all partition of pinned.history for values from (minvalue) to (maxvalue);
create index on pinned.history (job_id, id);
"""
NEW_ID = (
    "(lpad(to_hex((extract(epoch from clock_timestamp()) * 1000)::bigint), 12, '0')"
    " || substr(md5(random()::text), 1, 20))::uuid"
)
_FILL = f"""
insert into pinned.runs (id, job_id, tenant_id, lane_id, home_lane, ready_at, due_at, args)
select {NEW_ID}, {NEW_ID}, 1, 1, 1, clock_timestamp(), now(), $2 from generate_series(1, $1::int)
"""
# The moment comes as a number: what the driver makes of a timestamptz costs more than the rest of the row.
CLAIM = """
with picked as materialized (
    select ctid as place from pinned.runs
    where lane_id = 1 and ready_at >= $3 and ready_at <= now() and worker is null
    order by ready_at, id limit {batch} for update skip locked),
taken as (
    update pinned.runs set worker = $1, claim_no = $2, fence = fence + 1, attempt = attempt + 1, started_at = now()
    where ctid = any(array(select place from picked)) returning id, job_id, fence, args,
        (date_part('epoch', ready_at) * 1000000)::bigint as ready),
noted as (insert into pinned.claims select $1, $2, array_agg(id) from taken having count(*) > 0)
select * from taken
"""
_CLAIM = CLAIM.format(batch=BATCH)
_COMPLETE = """
with done as (
    delete from pinned.runs r using unnest($1::uuid[], $2::int[]) as x(id, fence)
    where r.id = x.id and r.fence = x.fence and r.worker = $3
    returning r.*),
closed as (delete from pinned.claims where worker = $3 and claim_no = $4),
kept as (
    insert into pinned.history
    select id, tenant_id, home_lane, job_id, attempt, fence, 2, due_at, started_at, now(), worker, null, args from done)
select count(*) from done
"""


async def drain_postgres(dsn: str, runs: int) -> float:
    """Runs a second through claim and completion."""
    return await timed_drain(dsn, runs, drain_pinned)


async def timed_drain(dsn: str, runs: int, drain: Callable[..., Awaitable[None]]) -> float:
    connection = await asyncpg.connect(dsn)
    try:
        await fill_pinned(connection, runs)
        began = time.perf_counter()
        await drain(connection, runs)
        return runs / (time.perf_counter() - began)
    finally:
        await connection.execute("drop schema pinned cascade")
        await connection.close()


async def fill_pinned(connection: "asyncpg.Connection[Any]", runs: int) -> None:
    await connection.execute(TABLES)
    for start in range(0, runs, 10_000):
        await connection.execute(_FILL, min(10_000, runs - start), ARGS)
    await connection.execute("vacuum analyze pinned.runs")
    await connection.execute("checkpoint")


async def drain_pinned(connection: "asyncpg.Connection[Any]", runs: int) -> None:
    """Claim and complete until so many are done."""
    worker, done, number = uuid.uuid4(), 0, 0
    mark = EPOCH
    while done < runs:
        number += 1
        rows = await connection.fetch(_CLAIM, worker, number, mark)
        if rows:  # where others submit meanwhile, a claim may find nothing yet
            mark = EPOCH + timedelta(microseconds=max(row[4] for row in rows))
            ids, fences = [row[0] for row in rows], [row[2] for row in rows]
            done += await connection.fetchval(_COMPLETE, ids, fences, worker, number)


SQLITE_TABLES = """
pragma journal_mode = wal;
pragma synchronous = full;
pragma cache_size = -200000;
create table runs (
    id blob primary key, job_id blob, tenant_id int, lane_id int, fence int default 0, attempt int default 0,
    claim_no int, worker blob, ready_at int, due_at int, started_at int, args blob);
create index ready on runs (lane_id, ready_at, id) where worker is null;
create table claims (worker blob, claim_no int, run_ids blob, primary key (worker, claim_no)) without rowid;
create table history (
    id blob, tenant_id int, lane int, job_id blob, attempt int, fence int, state int, due_at int, started_at int,
    finished_at int, worker blob, error text, args blob);
create index history_job on history (job_id, id);
"""


def drain_sqlite(file: Path, runs: int) -> float:
    """The same in SQLite."""
    return timed_drain_sqlite(file, runs, SQLITE_TABLES, run_pinned_sqlite)


def timed_drain_sqlite(
    file: Path, runs: int, tables: str, run_batch: Callable[[sqlite3.Connection, bytes, int], int]
) -> float:
    connection = sqlite3.connect(file, isolation_level=None)
    connection.executescript(tables)
    for start in range(0, runs, 10_000):
        submit_pinned_sqlite(connection, start, min(10_000, runs - start))
    worker, done, number = uuid.uuid4().bytes, 0, 0
    began = time.perf_counter()
    while done < runs:
        number += 1
        done += run_batch(connection, worker, number)
    elapsed = time.perf_counter() - began
    connection.close()
    return done / elapsed


def submit_pinned_sqlite(connection: sqlite3.Connection, start: int, size: int) -> None:
    """So many runs, in one commit."""
    drawn = new_ids(2 * size)
    rows = [(drawn[2 * index].bytes, drawn[2 * index + 1].bytes, start + index, ARGS) for index in range(size)]
    connection.execute("begin immediate")
    connection.executemany("insert into runs values (?, ?, 1, 1, 0, 0, null, null, ?, 0, null, ?)", rows)
    connection.execute("commit")


def run_pinned_sqlite(connection: sqlite3.Connection, worker: bytes, number: int) -> int:
    """A batch claimed and completed, with a commit each."""
    connection.execute("begin immediate")
    claimed = connection.execute(
        "update runs set worker = ?1, claim_no = ?2, fence = fence + 1, attempt = attempt + 1, started_at = 5"
        " where id in (select id from runs where lane_id = 1 and ready_at <= 1000000000 and worker is null"
        f" order by ready_at, id limit {BATCH}) returning id, job_id, fence, args",
        (worker, number),
    ).fetchall()
    ids = b"".join(row[0] for row in claimed)
    connection.execute("insert into claims values (?, ?, ?)", (worker, number, ids))
    connection.execute("commit")
    connection.execute("begin immediate")
    match = [(row[0], row[2], worker) for row in claimed]
    connection.executemany(
        "insert into history select id, tenant_id, lane_id, job_id, attempt, fence, 2, due_at, started_at, 9,"
        " worker, null, args from runs where id = ? and fence = ? and worker = ?",
        match,
    )
    connection.executemany("delete from runs where id = ? and fence = ? and worker = ?", match)
    connection.execute("delete from claims where worker = ? and claim_no = ?", (worker, number))
    connection.execute("commit")
    return len(claimed)
