"""Behind a real PgBouncer that pools transactions."""

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path

import asyncpg
import msgspec
import pytest

from chaos.real.bouncer import Bouncer, program
from duetime.engine.reaper import judge
from duetime.errors import StoreUnavailable
from duetime.node.diagnosis import diagnose
from duetime.store.postgres import PostgresStore, reaping
from duetime.store.postgres.database import MARK, SQL
from duetime.store.protocol.store import Hint
from duetime.store.shared.awake_lanes import LaneFollower
from tests.contract.hands import hand, job, submit
from tests.support import stores
from tests.support.pooler import work_through
from tests.support.postgres import Server
from tests.support.waiting import eventually
from tests.support.working import quick_settings

needs_pgbouncer = pytest.mark.skipif(
    program() is None,
    reason="PgBouncer is not installed: install your system's pgbouncer, or name it in DUETIME_TEST_PGBOUNCER",
)
opened = partial(stores.opened, prepared=False)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that the unprivileged user of the servers may enter."""
    path = Path(tempfile.mkdtemp(prefix="duetime-bouncer-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@asynccontextmanager
async def bouncing(server: Server, folder: Path, dsn: str, *, size: int = 3) -> AsyncIterator[Bouncer]:
    bouncer = Bouncer(server, folder, database=dsn.rpartition("/")[2].partition("?")[0], size=size)
    await asyncio.to_thread(bouncer.start)
    try:
        yield bouncer
    finally:
        bouncer.kill()


@needs_pgbouncer
async def test_doctor_finds_the_pooler(postgres: Server, migrated: str, folder: Path) -> None:
    async with bouncing(postgres, folder, migrated) as bouncer:
        settings = msgspec.structs.replace(quick_settings(bouncer.dsn), prepared_statements="off")
        (pooler,) = [each async for each in diagnose(settings) if each.check == "pooler"]
        assert (pooler.status, "in transaction mode" in pooler.found) == ("warning", True)
        assert "direct_database_url" in str(pooler.remedy)
        direct = msgspec.structs.replace(settings, direct_database_url=migrated)
        assert [each.status async for each in diagnose(direct) if each.check == "pooler"] == ["ok"]


async def test_no_statement_makes_the_driver_ask_for_types(migrated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The query for it takes seconds where the server compiles it, as it does behind a pooler."""

    async def refuse(self: object, oids: object, timeout: object) -> None:
        raise AssertionError(f"the driver asks for the types {oids}")

    monkeypatch.setattr(asyncpg.Connection, "_introspect_types", refuse)
    async with opened(migrated) as store, store.database.connection() as connection:
        for text in SQL.values():
            await connection.prepare(text)
        arrays = "select $1::int[], $2::text[], $3::timestamptz[], $4::uuid[], $5::interval[], $6::bytea[], $7::bool[]"
        given = ([1, 2], ["a,b", None], [], [], [timedelta(seconds=1)], [b"\\x"], [True, None])
        assert tuple(await connection.fetchrow(arrays, *given) or ()) == given


@needs_pgbouncer
async def test_everything_works_and_nothing_goes_astray(migrated: str, postgres: Server, folder: Path) -> None:
    async with bouncing(postgres, folder, migrated) as bouncer:
        await work_through(bouncer.dsn)
        complaints = [line for line in bouncer.log.read_text().splitlines() if "WARNING" in line or "ERROR" in line]
        assert complaints == []


@needs_pgbouncer
async def test_it_listens_at_the_database_itself(migrated: str, postgres: Server, folder: Path) -> None:
    async with (
        bouncing(postgres, folder, migrated) as bouncer,
        opened(bouncer.dsn, direct=migrated) as direct,
        opened(bouncer.dsn) as store,
    ):
        heard: list[Hint] = []
        direct.listen(heard.append)
        store.listen(lambda hint: None)
        watching = await asyncpg.connect(migrated)
        listening = "select count(*) from pg_stat_activity where query ilike 'listen%' and pid <> pg_backend_pid()"
        await eventually(lambda: watching.fetchval(listening))
        assert store.context.hints._listener is not None
        await asyncio.wait_for(store.context.hints._listener, 10)  # it gave up, and polls
        assert await watching.fetchval(listening) == 1
        await watching.close()
        await submit(store, job())
        await eventually(lambda: Hint.READY in heard)


@needs_pgbouncer
async def test_a_transaction_of_somebody_else_is_not_ended(migrated: str, postgres: Server, folder: Path) -> None:
    """In the session that was duetime's a moment ago, and is still called so."""
    async with (
        bouncing(postgres, folder, migrated, size=1) as bouncer,
        opened(migrated) as store,
        opened(bouncer.dsn) as pooled,
    ):
        await submit(pooled, job())
        user = await asyncpg.connect(bouncer.dsn, statement_cache_size=0)
        await user.execute("begin")
        # It has prepared its next statement and not run it: to the server it is busy.
        await user._protocol.prepare("", "select 1", timeout=5, record_class=asyncpg.Record)
        assert await store.database.fetch("silent_sessions", MARK) == []
        assert await user.fetchval("select 2") == 2
        await user.execute("commit")
        await user.close()


async def test_a_transaction_of_ours_that_was_abandoned_is_ended(
    migrated: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a node has seen it silent for as long, by its own time: the server's clock may have stepped."""
    now = 1000.0
    monkeypatch.setattr(reaping, "monotonic", lambda: now)
    monkeypatch.setattr(reaping, "ABANDONED_AFTER", timedelta(milliseconds=1))
    monkeypatch.setattr(reaping, "_ABANDONED_EVERY", 0.0)
    async with opened(migrated) as store:
        gone = await store.database.connect()
        try:
            await gone.execute("begin")
            await gone._protocol.prepare("next", SQL["clock"], timeout=5, record_class=asyncpg.Record)
            # The server tells of the state of a session a moment after the client has its answer.
            await eventually(lambda: store.database.fetch("silent_sessions", MARK))
            for _ in range(3):
                await store.reaping.reap(10, judge, timedelta(seconds=1))
            assert await gone.fetchval("select 1") == 1
            await gone._protocol.prepare("another", SQL["clock"], timeout=5, record_class=asyncpg.Record)
            await eventually(lambda: store.database.fetch("silent_sessions", MARK))
            now += 1
            await store.reaping.reap(10, judge, timedelta(seconds=1))
            assert await gone.fetchval("select 1") == 1, "it has spoken since it was seen first"
            await gone._protocol.prepare("last", SQL["clock"], timeout=5, record_class=asyncpg.Record)
            await eventually(lambda: store.database.fetch("silent_sessions", MARK))
            await store.reaping.reap(10, judge, timedelta(seconds=1))
            now += 1
            await store.reaping.reap(10, judge, timedelta(seconds=1))
            with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError)):
                await gone.fetchval("select 1")
        finally:
            gone.terminate()


@needs_pgbouncer
async def test_after_a_rewind_behind_it_jobs_are_stored_where_workers_look(postgres: Server, folder: Path) -> None:
    """The connections to the pooler live on while another, older database takes the place of the first."""
    with Server(postgres.binaries) as first:
        dsn = first.create_database("duetime")
        store = PostgresStore(dsn)
        await store.open()
        await store.migrate()
        await submit(store, job())
        await store.close()
        older = Server(postgres.binaries, copy_of=first)
        try:
            async with bouncing(first, folder, dsn) as bouncer, opened(bouncer.dsn) as pooled:
                follower = LaneFollower(pooled.claims)
                await submit(pooled, job(queue="mail"))
                await follower.read()
                first.stop_immediately()
                older.port = first.port
                older.start()

                async def accepted() -> object:
                    try:
                        return (await submit(pooled, job(queue="mail"))).run_id
                    except StoreUnavailable:
                        return None

                run_id = await eventually(accepted)
                async with opened(older.dsn("duetime")) as fresh:
                    worker = await hand(fresh)
                    assert run_id in [run.run_id for run in await worker.claim()]
                assert (await follower.read()).rewound
        finally:
            older.close()
