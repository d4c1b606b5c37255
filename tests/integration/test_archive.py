"""The archive with real storage, real readers and real deaths."""

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from duetime import App
from duetime.archive.archive import Archive, archive_of
from duetime.archive.archived_store import archived
from duetime.archive.names import date_of, day_of
from duetime.archive.storage import FolderStorage, Storage
from duetime.engine.archiver import Archiver
from duetime.model.lists import RunFilter
from duetime.store.address import open_ready, store_for
from duetime.store.protocol.store import Store
from duetime.telemetry.meters import Meters
from tests.support.old_history import add_ended
from tests.support.s3_server import S3Server
from tests.support.working import quick_settings

duckdb = pytest.importorskip("duckdb")
ROOT = Path(__file__).parents[2]
DAY = day_of((datetime.now(UTC) - timedelta(days=40)).date())
RETENTION = timedelta(days=30)


@pytest.fixture(scope="module")
def s3() -> Iterator[S3Server]:
    if (reason := S3Server.missing()) is not None:
        pytest.skip(reason)
    with S3Server() as server:
        yield server


@pytest.fixture
async def store(database_url: str) -> AsyncIterator[Store]:
    store = store_for(quick_settings(database_url))
    await open_ready(store)
    yield store
    await store.close()


async def prune(store: Store) -> None:
    idle = 0
    while idle < 3:
        idle = 0 if await store.pruning.prune(RETENTION, RETENTION) else idle + 1


async def listed(store: Store, limit: int = 100) -> list[UUID]:
    found: list[UUID] = []
    before: UUID | None = None
    while True:
        page = await store.lists.list_runs(1, RunFilter(), before, limit)
        found += [item.id for item in page.items]
        if (before := page.next) is None:
            return found


async def test_s3_holds_a_day_and_gives_it_back(
    store: Store, s3: S3Server, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage = s3.storage(tmp_path.name)
    runs = await add_ended(store, DAY, 300)
    meters = Meters()
    archiver = Archiver(store, Archive(store, storage, part_rows=100), retention=RETENTION, meters=meters)
    s3.kill()
    await archiver.tick()
    await prune(store)
    assert meters.archive_failures >= 1 and "stays in the database" in caplog.text
    assert "hunter2" not in caplog.text
    assert await listed(store) == runs
    s3.start()
    await archiver.tick()
    await prune(store)
    assert await listed(store) == []
    cold = archived(store, storage)
    assert await listed(cold) == runs
    assert (await cold.reads.run(1, runs[7])).archived
    archive = Archive(store, storage)
    assert (await archive.restore(DAY, 1, await store.now() + RETENTION)).rows == 300
    assert await listed(store) == runs
    assert await archive.erase(1) >= 3
    assert await asyncio.to_thread(storage.names, "") == []


async def test_duckdb_reads_the_files_as_documented(store: Store, tmp_path: Path) -> None:
    storage: Storage = FolderStorage(tmp_path / "archive")
    await add_ended(store, DAY, 30, task="bill", args=b'{"user":"ada"}')
    await add_ended(store, DAY, 20, task="greet")
    now = await store.now()
    assert await Archive(store, storage).write_day(DAY, now)
    (query,) = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/archive.md").read_text(), re.DOTALL)
    query = query.replace("/var/lib/duetime/archive", str(tmp_path / "archive")).replace("2026-", f"{date_of(DAY):%Y}-")
    rows = duckdb.sql(query).fetchall()
    assert [row[:3] for row in rows] == [("bill", 30, 0), ("greet", 20, 0)]
    assert all(abs(row[3] - 0.02) < 1e-6 for row in rows)
    files = f"{tmp_path}/archive/*/*/*.parquet"
    assert duckdb.sql(
        f"select tenant, day::text, decode(args)::json ->> 'user', typeof(run_id), count(*)"
        f" from read_parquet('{files}', hive_partitioning = true) where task = 'bill' group by all"
    ).fetchall() == [(1, date_of(DAY).isoformat(), "ada", "UUID", 30)]


_KILLED = """
import asyncio, sys
from pathlib import Path
from duetime import App
from duetime.archive.archive import Archive, archive_of
from duetime.archive.storage import FolderStorage
from duetime.store.address import store_for, open_ready
from tests.support.working import quick_settings

class Stalls(FolderStorage):
    puts = 0
    def put(self, path, body):
        self.puts += 1
        if self.puts > 3:
            print("stalled", flush=True)
            import time; time.sleep(600)
        super().put(path, body)

async def main():
    store = store_for(quick_settings(sys.argv[1]))
    await open_ready(store)
    now = await store.now()
    await Archive(store, Stalls(Path(sys.argv[2])), part_rows=100).write_day(int(sys.argv[3]), now)

asyncio.run(main())
"""


async def test_a_killed_archiver_is_continued(database_url: str, tmp_path: Path, monkeypatch: Any) -> None:
    settings, folder = quick_settings(database_url), tmp_path / "archive"
    store = store_for(settings)
    await open_ready(store)
    runs = await add_ended(store, DAY, 1050)
    await store.close()  # an embedded file belongs to one process
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", _KILLED, database_url, str(folder), str(DAY)),
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), 60) == b"stalled\n"
    os.kill(process.pid, signal.SIGKILL)
    await process.wait()
    await store.open()
    try:
        written = {file: file.stat().st_mtime_ns for file in folder.rglob("*.parquet")}
        recorded = await store.archives.parts_of_day(DAY)
        assert len(recorded) == len(written) == 3
        monkeypatch.setattr("duetime.archive.archive.LEASE", timedelta(seconds=60))
        archive = Archive(store, FolderStorage(folder), part_rows=100)
        # The dead process holds the claim for the rest of its lease.
        assert not await archive.write_day(DAY, await store.now())
        (state,) = [day for day in await store.archives.archive_days() if day.day == DAY]
        assert state.archived_at is None
        await expire_claim(store)
        assert await archive.write_day(DAY, await store.now())
        assert {file: file.stat().st_mtime_ns for file in written} == written, "verified parts are not written again"
        parts = await store.archives.parts_of_day(DAY)
        assert sum(part.rows for part in parts) == 1050
        assert await archive.release(await store.now(), RETENTION) == []
        await store.archives.use_archive(used=True)
        await prune(store)
        assert await listed(store) == []
        assert await listed(archived(store, archive.storage)) == runs
        files = {file.name for file in folder.rglob("*.parquet")}
        assert files == {part.name for part in parts}, "no file is left behind"
    finally:
        await store.close()


async def expire_claim(store: Store) -> None:
    """As if a minute had passed."""
    database: Any = getattr(store, "database")  # noqa: B009
    if store.embedded:
        await database.run(lambda connection, _: connection.raw.execute("update archive_days set claimed_until = 0"))
    else:
        async with database.connection() as connection:
            await connection.execute("update duetime.archive_days set claimed_until = '-infinity'")


async def test_a_stopped_node_does_not_wait_for_a_day(database_url: str, tmp_path: Path) -> None:
    """Its claim is free at once."""
    store = store_for(quick_settings(database_url))
    await open_ready(store)
    try:
        await add_ended(store, DAY, 200)
        stalled = asyncio.Event()
        loop = asyncio.get_running_loop()

        class Stalls(FolderStorage):
            def get(self, path: str) -> Any:
                loop.call_soon_threadsafe(stalled.set)
                return super().get(path)

        class Waits(Archive):
            async def write_day(self, *given: Any, **more: Any) -> bool:
                done = await super().write_day(*given, **more)
                stalled.set()
                await asyncio.sleep(600)
                return done

        archiver = Archiver(store, Waits(store, Stalls(tmp_path), part_rows=50), retention=RETENTION)
        ticking = asyncio.create_task(archiver.tick())
        await asyncio.wait_for(stalled.wait(), 30)
        archiver.stop()
        await asyncio.wait_for(ticking, 30)
        again = Archive(store, FolderStorage(tmp_path), part_rows=50)
        await again.write_day(DAY, await store.now())
        assert sum(part.rows for part in await store.archives.parts_of_day(DAY)) == 200
    finally:
        await store.close()


async def test_an_app_finds_archived_runs(database_url: str, tmp_path: Path) -> None:
    settings = msgspec.structs.replace(quick_settings(database_url), archive_url=f"file://{tmp_path}/archive")
    async with App(settings=settings) as app:
        store = await app.store()
        runs = await add_ended(store, DAY, 3, result=b'"done"')
        archive = archive_of(store, settings)
        assert archive is not None
        await store.archives.use_archive(used=True)
        assert await archive.write_day(DAY, await store.now())
        assert await archive.release(await store.now(), RETENTION) == []
        await prune(store)
        assert (await store.reads.counts()).history == 0
        assert (await store.reads.run(1, runs[0])).value == "done"
        assert await listed(store) == runs
