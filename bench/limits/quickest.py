"""The drain once more, on the same tables, with what duetime has found to be quickest: so that it need not be believed
that the pinned loop is the best that one connection can do. No target is judged by it.

What differs: a batch is completed by the ids of its runs and the one fence that they have, instead of a join with ids
and fences; plans are made once; batches are of 1,000. In SQLite a batch is claimed and completed by statements for all
of it, instead of one for each run, and the log is four times as long before it is carried over.
"""

import sqlite3
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import asyncpg

from bench.limits.drain import CLAIM, EPOCH, SQLITE_TABLES, timed_drain, timed_drain_sqlite

BATCH = 1_000
"""As many as a worker of 3,000 slots claims at once."""
FIRST_FENCE = 1
_PLANS = """
set plan_cache_mode = force_generic_plan;
set jit = off;
set enable_seqscan = off;
set enable_bitmapscan = off;
set enable_hashjoin = off;
set enable_mergejoin = off;
"""
_CLAIM = CLAIM.format(batch=BATCH)
_COMPLETE = """
with done as (
    delete from pinned.runs
    where id = any($1::uuid[]) and fence = $2 and worker is not distinct from $3
    returning *),
closed as (delete from pinned.claims where worker = $3 and claim_no = $4),
kept as (
    insert into pinned.history
    select id, tenant_id, home_lane, job_id, attempt, fence, 2, due_at, started_at, now(), worker, null, args from done)
select count(*) from done
"""


async def quickest_postgres(dsn: str, runs: int) -> float:
    """Runs a second through claim and completion."""
    return await timed_drain(dsn, runs, drain_quickest)


async def drain_quickest(connection: "asyncpg.Connection[Any]", runs: int) -> None:
    """Claim and complete until so many are done."""
    await connection.execute(_PLANS)
    worker, done, number = uuid.uuid4(), 0, 0
    mark = EPOCH
    while done < runs:
        number += 1
        rows = await connection.fetch(_CLAIM, worker, number, mark)
        mark = EPOCH + timedelta(microseconds=max(row[4] for row in rows))
        assert all(row[2] == FIRST_FENCE for row in rows)
        done += await connection.fetchval(_COMPLETE, [row[0] for row in rows], FIRST_FENCE, worker, number)


_SQLITE_PRAGMAS = """
pragma wal_autocheckpoint = 4000;
pragma temp_store = memory;
"""
_READY = f"""
from runs where lane_id = 1 and ready_at <= 1000000000 and worker is null order by ready_at, id limit {BATCH}
"""
_KEEP = """
insert into history
select r.id, r.tenant_id, r.lane_id, r.job_id, r.attempt, r.fence, 2, r.due_at, r.started_at, 9, r.worker, null, r.args
from json_each(:places) x cross join runs r on r.id = substr(:ids, x.key * 16 + 1, 16)
where r.fence = :fence and r.worker = :worker
"""
_END = """
delete from runs where id in (select substr(:ids, key * 16 + 1, 16) from json_each(:places))
    and fence = :fence and worker = :worker
"""


def quickest_sqlite(file: Path, runs: int) -> float:
    """The same in SQLite."""
    return timed_drain_sqlite(file, runs, SQLITE_TABLES + _SQLITE_PRAGMAS, run_quickest_sqlite)


def run_quickest_sqlite(connection: sqlite3.Connection, worker: bytes, number: int) -> int:
    """A batch claimed and completed, with a commit each."""
    connection.execute("begin immediate")
    claimed = connection.execute(f"select id, job_id, fence + 1, args {_READY}").fetchall()
    connection.execute(
        "update runs set worker = ?1, claim_no = ?2, fence = fence + 1, attempt = attempt + 1, started_at = 5"
        f" where id in (select id {_READY})",
        (worker, number),
    )
    ids = b"".join([row[0] for row in claimed])
    connection.execute("insert into claims values (?, ?, ?)", (worker, number, ids))
    connection.execute("commit")
    connection.execute("begin immediate")
    assert all(row[2] == FIRST_FENCE for row in claimed)
    these = {
        "ids": ids,
        "places": "[" + ",".join("0" * len(claimed)) + "]",
        "fence": FIRST_FENCE,
        "worker": worker,
    }
    connection.execute(_KEEP, these)
    ended = connection.execute(_END, these).rowcount
    connection.execute("delete from claims where worker = ? and claim_no = ?", (worker, number))
    connection.execute("commit")
    return ended
