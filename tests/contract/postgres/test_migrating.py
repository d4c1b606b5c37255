"""Migrating a database of the last release, which others use meanwhile."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Protocol
from uuid import uuid4

import asyncpg
import pytest

from duetime.errors import SchemaMismatch, StoreUnavailable
from duetime.store.postgres import PostgresStore, lock_wait, schema
from tests.contract.hands import hand, job, submit
from tests.contract.worlds import PostgresWorld, execute, query
from tests.support.catalog import catalog
from tests.support.releases import put_next_release
from tests.support.waiting import eventually

Session = asyncpg.Connection

EXPAND = """
alter table duetime.jobs add column next_release text;
alter table duetime.runs add column next_release integer not null default 0;
create table duetime.next_release (id integer primary key);
create index runs_of_next_release on duetime.runs (next_release) where next_release > 0;
"""
BUILD_INDEXES = """-- outside a transaction
-- Two of them: what was built before an interruption stays.
create index concurrently if not exists jobs_by_task on duetime.jobs (task);
create index concurrently if not exists runs_by_due on duetime.runs (due_at); -- the second
"""
MOVE_CLOCK = """
create or replace function duetime.now() returns timestamptz language sql stable as
    $$ select timestamptz '2030-01-01Z' $$"""


class NextRelease(Protocol):
    def __call__(
        self, migrations: Mapping[str, str] | None = None, functions: Mapping[str, tuple[str, str]] | None = None
    ) -> object: ...


@pytest.fixture
def next_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NextRelease:
    """This process becomes the next release."""

    def make(
        migrations: Mapping[str, str] | None = None, functions: Mapping[str, tuple[str, str]] | None = None
    ) -> object:
        return put_next_release(schema, monkeypatch, tmp_path, migrations, functions)

    return make


@pytest.fixture
async def old(world: PostgresWorld) -> AsyncIterator[PostgresStore]:
    """A store on a database of the last release."""
    name = f"old_{uuid4().hex}"
    store = PostgresStore(world.server.create_database(name))
    await store.open()
    await store.migrate()
    yield store
    await store.close()
    world.server.drop_database(name)


@pytest.fixture
async def twin(old: PostgresStore) -> AsyncIterator[PostgresStore]:
    """Another process on the same database."""
    store = PostgresStore(old.database.url)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def reader(old: PostgresStore) -> AsyncIterator["Session[asyncpg.Record]"]:
    """A session in the middle of reading what the next migration changes."""
    connection = await asyncpg.connect(old.database.url, server_settings={"application_name": "report"})
    await connection.execute("begin")
    await connection.fetch("select * from duetime.runs")
    yield connection
    await connection.close()


class Load:
    """Jobs are submitted, claimed and completed, one batch after the other."""

    def __init__(self, store: PostgresStore) -> None:
        self._store = store
        self._stop = self._all_submitted = False
        self.submitted = self.succeeded = 0

    async def __aenter__(self) -> "Load":
        self._tasks = [asyncio.create_task(self._submit()), asyncio.create_task(self._work())]
        await self.goes_on()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stop = True
        await asyncio.gather(*self._tasks)

    async def goes_on(self) -> None:
        """Wait until more was submitted and completed."""
        before = self.submitted, self.succeeded
        await eventually(
            lambda: (
                all(task.done() for task in self._tasks)
                or (self.submitted > before[0] + 20 and self.succeeded > before[1] + 20)
            )
        )
        assert not any(task.done() for task in self._tasks)

    async def _submit(self) -> None:
        while not self._stop:
            await submit(self._store, *(job() for _ in range(5)))
            self.submitted += 5
            await asyncio.sleep(0.005)
        self._all_submitted = True

    async def _work(self) -> None:
        worker = await hand(self._store)
        while not self._all_submitted or self.succeeded < self.submitted:
            runs = await worker.claim()
            await worker.succeed(*runs)
            self.succeeded += len(runs)
            await asyncio.sleep(0.005)


async def test_a_database_of_the_last_release_is_upgraded_under_load(
    old: PostgresStore, twin: PostgresStore, next_release: NextRelease
) -> None:
    async with Load(old) as load:
        migrations = {"0002_expand.sql": EXPAND, "0003_build_indexes.sql": BUILD_INDEXES}
        next_release({**migrations, "0004_functions.sql": "-- Only functions have changed."})
        assert await twin.migrate() == [2, 3, 4]
        await load.goes_on()
    assert load.succeeded == load.submitted
    assert (await old.reads.counts()).history == load.submitted
    assert await twin.check_schema() == 4
    assert _indexes(old, "runs_of_next_release", "jobs_by_task", "runs_by_due") == [True, True, True]


async def test_two_upgrades_at_once_apply_each_version_once(
    old: PostgresStore, twin: PostgresStore, next_release: NextRelease
) -> None:
    next_release({"0002_build_indexes.sql": BUILD_INDEXES, "0003_expand.sql": EXPAND})
    first, second = await asyncio.gather(old.migrate(), twin.migrate())
    assert sorted(first + second) == [2, 3]


async def test_an_index_whose_building_was_cut_short_is_built_again(
    old: PostgresStore, twin: PostgresStore, next_release: NextRelease, reader: "Session[asyncpg.Record]"
) -> None:
    next_release({"0002_build_indexes.sql": BUILD_INDEXES})
    # A transaction that has written to the table is what building an index waits for.
    await reader.execute("lock table duetime.runs in row exclusive mode")
    migrating = asyncio.create_task(twin.migrate())
    builders = "select pid from pg_stat_progress_create_index where relid = 'duetime.runs'::regclass"
    ((builder,),) = await eventually(lambda: query(old.database.url, builders))
    async with Load(old) as load:
        await load.goes_on()  # no statement waits for the index
        execute(old.database.url, "select pg_terminate_backend(%s)", builder)
        with pytest.raises(StoreUnavailable):
            await migrating
        assert _indexes(old, "jobs_by_task", "runs_by_due") == [True, False]
        assert query(old.database.url, "select max(version) from duetime.schema_versions") == [(1,)]
        await reader.execute("commit")
        assert await twin.migrate() == [2]
        await load.goes_on()
    assert _indexes(old, "jobs_by_task", "runs_by_due") == [True, True]


async def test_a_migration_that_fails_leaves_nothing_behind(old: PostgresStore, next_release: NextRelease) -> None:
    before = catalog(old.database.url)
    next_release({"0002_expand.sql": EXPAND + "select * from duetime.there_is_none;"})
    with pytest.raises(SchemaMismatch, match="there_is_none"):
        await old.migrate()
    assert catalog(old.database.url) == before


async def test_functions_are_replaced_when_their_text_changes(old: PostgresStore, next_release: NextRelease) -> None:
    next_release(functions={"audit": ("is only added to", "is append-only")})
    # What a file that has not changed says is left alone.
    execute(old.database.url, MOVE_CLOCK)
    assert await old.migrate() == []
    assert "is append-only" in _source(old, "refuse_to_rewrite")
    assert "2030-01-01Z" in _source(old, "now")
    assert query(old.database.url, "select version from duetime.function_files where name = 'audit'") == [(1,)]


async def test_an_older_release_does_not_put_its_functions_back(old: PostgresStore, next_release: NextRelease) -> None:
    execute(old.database.url, "insert into duetime.schema_versions (version, oldest_code) values (2, 1)")
    next_release(functions={"audit": ("is only added to", "of an older release")})
    assert await old.migrate() == []
    assert "of an older release" not in _source(old, "refuse_to_rewrite")


async def test_a_function_with_other_arguments_replaces_the_one_that_the_migration_drops(
    old: PostgresStore, twin: PostgresStore, next_release: NextRelease
) -> None:
    other_arguments = (
        "lanes_used(tenant integer, most bigint)",
        "lanes_used(tenant integer, most integer)",
    )
    async with Load(old) as load:
        drop = "drop function if exists duetime.lanes_used(integer, bigint);"
        next_release({"0002_other_arguments.sql": drop}, {"lanes": other_arguments})
        assert await twin.migrate() == [2]
        await load.goes_on()
    found = query(old.database.url, "select pg_get_function_arguments('duetime.lanes_used'::regproc)")
    assert found == [("tenant integer, most integer",)]


async def test_applying_all_functions_again_changes_nothing(old: PostgresStore) -> None:
    before = catalog(old.database.url)
    assert len(before) > 1000
    execute(old.database.url, "update duetime.function_files set hash = 'another'")
    assert await old.migrate() == []
    assert catalog(old.database.url) == before
    assert query(old.database.url, "select count(*) from duetime.function_files where hash = 'another'") == [(0,)]


async def test_a_migration_waits_its_turn_and_says_for_whom(
    old: PostgresStore, reader: "Session[asyncpg.Record]", next_release: NextRelease, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "duetime.store")
    next_release({"0002_expand.sql": EXPAND})
    migrating = asyncio.create_task(old.migrate())
    await eventually(lambda: caplog.messages)
    assert "migration 2 waits for locks" in caplog.messages[0]
    assert f"process {reader.get_server_pid()} (report, idle in transaction" in caplog.messages[0]
    assert "runs" in caplog.messages[0]
    # The others have their turn in between.
    other = await asyncpg.connect(old.database.url)
    await other.fetch("select * from duetime.runs", timeout=20)
    await other.close()
    await reader.execute("commit")
    assert await migrating == [2]
    await submit(old, job())


async def test_a_migration_gives_up_when_its_table_stays_locked(
    old: PostgresStore,
    reader: "Session[asyncpg.Record]",
    next_release: NextRelease,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lock_wait, "LOCK_WAIT", 0.1)
    next_release({"0002_expand.sql": EXPAND})
    with pytest.raises(StoreUnavailable, match=r"migration 2 did not get its locks within 0.1 s: process \d+ \(report"):
        await old.migrate()
    await reader.execute("commit")
    assert await old.migrate() == [2]


def _indexes(store: PostgresStore, *names: str) -> list[Any]:
    """Whether these indexes are valid."""
    valid = "select indisvalid from pg_index where indexrelid = to_regclass(%s)"
    return [query(store.database.url, valid, f"duetime.{name}")[0][0] for name in names]


def _source(store: PostgresStore, function: str) -> str:
    return str(
        query(store.database.url, "select prosrc from pg_proc where oid = %s::regproc", f"duetime.{function}")[0][0]
    )
