"""Archive: a day of ten million ended runs is written as Parquet to a folder, compared, removed from the database, and
listed from the files.

The rows have no arguments, options or results to keep. The rate is by the wall clock, from the claim of the day to the
record that it is archived, every file read back. CPU time is that of PostgreSQL and of the archiving process. A page is
100 runs before a place that is drawn by chance, read from the files after the day was removed. There is no limit of
plain loops, and no peer archives.
"""

import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from uuid import UUID

import asyncpg

from bench.context import Bench
from bench.goals import Target
from bench.processes import cpu_of_family
from bench.stores import migrated
from duetime.archive.archive import Archive
from duetime.archive.archived_store import archived
from duetime.archive.names import day_of
from duetime.archive.storage import FolderStorage
from duetime.ids import first_id_at
from duetime.model.attempt import AttemptState
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lists import RunFilter
from duetime.model.microseconds import EPOCH
from duetime.model.run import RunState
from duetime.store.postgres import PostgresStore
from tests.support.old_history import add_ended

AGO = 3
"""How many days ago the rows ended."""
PAGES, PAGE = 30, 100
PART = 500_000
RETENTION = timedelta(days=1)
TARGETS = {
    ("postgres", "archived"): Target(least=100_000.0),
    ("postgres", "files, per row"): Target(most=60.0),
    ("postgres", "page, longest"): Target(most=1.0),
    ("postgres", "rows not in files"): Target(most=0.0),
}
# Ids begin with their milliseconds, as those of the product do; a run belongs to the job before it.
_FILL = """
insert into duetime.history (run_id, job_id, tenant_id, lane_id, fence, attempt, lost, attempt_state, end_state, due_at,
    ready_at, started_at, finished_at, worker_id, timeout_ms, args)
select (x.ms || '8' || x.rest)::uuid, (x.ms || '7' || x.rest)::uuid, $1, $2, 1, 1, 0, $7, $8, x.at, x.at, x.at,
    x.at + interval '20 milliseconds', md5('worker' || n % 8)::uuid, 30000, '{}'
from generate_series($3::bigint, $4::bigint) n
cross join lateral (select $5::timestamptz + n * $6::interval as at) t
cross join lateral (
    select t.at, lpad(to_hex((extract(epoch from t.at) * 1000)::bigint), 12, '0') as ms,
        substr(md5(n::text), 1, 3) || '8' || substr(md5(n::text), 4, 15) as rest) x
"""


async def run(bench: Bench) -> None:
    report = bench.report("archive", "rows/s")
    rows = bench.knobs.stored
    report.notes["rows"] = rows
    day = day_of((datetime.now(UTC) - timedelta(days=AGO)).date())
    bench.knobs.data.mkdir(parents=True, exist_ok=True)
    for _ in range(bench.knobs.rounds):
        dsn, folder = (
            bench.databases.postgres(),
            Path(tempfile.mkdtemp(prefix="duetime-archive-", dir=bench.knobs.data)),
        )
        try:
            async with migrated(PostgresStore(dsn)) as store:
                await _fill(store, dsn, day, rows)
                archive = Archive(store, FolderStorage(folder))
                await store.archives.use_archive(used=True)
                database = bench.databases.server.pid
                before, began = (cpu_of_family(database), time.process_time()), time.perf_counter()
                if not await archive.write_day(day, await store.now()):
                    raise RuntimeError("the day was not archived")
                report.ours("postgres", "archived", rows / (time.perf_counter() - began))
                spent = cpu_of_family(database) - before[0], time.process_time() - before[1]
                for name, seconds in zip(("PostgreSQL's CPU", "the archiver's CPU"), spent, strict=True):
                    report.ours("postgres", name, seconds / rows * 1e6, unit="µs per row", better="lower")
                parts = await store.archives.parts_of_day(day)
                size = sum(part.bytes for part in parts) / rows
                report.ours("postgres", "files, per row", size, unit="bytes", better="lower")
                missing = rows - sum(part.rows for part in parts)
                report.ours("postgres", "rows not in files", missing, unit="rows", better="lower")
                began = time.perf_counter()
                if problems := await archive.release(await store.now(), RETENTION):
                    raise RuntimeError(problems[0])
                report.ours("postgres", "compared", time.perf_counter() - began, unit="s", better="lower")
                began = time.perf_counter()
                await store.pruning.prune(RETENTION, timedelta(days=90))
                report.ours("postgres", "removed", time.perf_counter() - began, unit="s", better="lower")
                times = await _pages(archived(store, archive.storage), day)
                report.ours("postgres", "page, median", times[len(times) // 2], unit="s", better="lower")
                report.ours("postgres", "page, longest", times[-1], unit="s", better="lower")
        finally:
            shutil.rmtree(folder)
    report.finish(TARGETS)


async def _fill(store: PostgresStore, dsn: str, day: int, rows: int) -> None:
    await add_ended(store, day, 1)  # the first, which makes the lane of the others
    connection = await asyncpg.connect(dsn)
    try:
        lane = await connection.fetchval("select lane_id from duetime.history")
        states = (AttemptState.SUCCEEDED.value, RunState.SUCCEEDED.value)
        # Less than the whole day: a step is rounded to microseconds, and a run ends after it starts.
        start, step = EPOCH + timedelta(days=day), timedelta(hours=23) / (rows + 1)
        for first in range(2, rows + 1, PART):
            part = (first, min(rows, first + PART - 1), start, step)
            await connection.execute(_FILL, DEFAULT_TENANT, lane, *part, *states, timeout=600)
        await connection.execute("vacuum analyze duetime.history", timeout=600)
        await connection.execute("checkpoint", timeout=600)
    finally:
        await connection.close()


async def _pages(store: PostgresStore, day: int) -> list[float]:
    """Seconds for pages at places of the day, sorted."""
    random, times = Random(1), []
    start = EPOCH + timedelta(days=day)
    for _ in range(PAGES):
        before: UUID = first_id_at(start + timedelta(days=random.uniform(0.1, 1.0)))
        began = time.perf_counter()
        page = await store.lists.list_runs(DEFAULT_TENANT, RunFilter(), before, PAGE)
        times.append(time.perf_counter() - began)
        if len(page.items) != PAGE:
            raise RuntimeError(f"a page has {len(page.items)} runs")
    return sorted(times)
