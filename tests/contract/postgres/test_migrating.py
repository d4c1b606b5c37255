"""Migrating a database that others use."""

import asyncio
import logging
from collections.abc import AsyncIterator

import asyncpg
import pytest

from duetime.errors import StoreUnavailable
from duetime.store.postgres import PostgresStore, lock_wait, schema
from tests.contract.hands import job, submit
from tests.contract.worlds import PostgresWorld
from tests.support.waiting import eventually

Session = asyncpg.Connection


@pytest.fixture
async def old(world: PostgresWorld, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PostgresStore]:
    """A store on a database that has the first migration only."""
    name = f"old_{world.server.port}"
    store = PostgresStore(world.server.create_database(name))
    await store.open()
    with monkeypatch.context() as first:
        first.setattr(schema, "MIGRATIONS", schema.MIGRATIONS[:1])
        await store.migrate()
    yield store
    await store.close()
    world.server.drop_database(name)


@pytest.fixture
async def reader(old: PostgresStore) -> AsyncIterator["Session[asyncpg.Record]"]:
    """Somebody in the middle of reading what the next migration changes."""
    connection = await asyncpg.connect(old.database.url, server_settings={"application_name": "report"})
    await connection.execute("begin")
    await connection.fetch("select * from duetime.runs")
    yield connection
    await connection.close()


async def test_a_migration_waits_its_turn_and_says_for_whom(
    old: PostgresStore, reader: "Session[asyncpg.Record]", caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "duetime.store")
    migrating = asyncio.create_task(old.migrate())
    await eventually(lambda: caplog.messages)
    assert "migration 2 waits its turn" in caplog.messages[0]
    assert f"process {reader.get_server_pid()} (report, idle in transaction" in caplog.messages[0]
    assert "runs" in caplog.messages[0]
    # The others have their turn in between.
    other = await asyncpg.connect(old.database.url)
    await other.fetch("select * from duetime.runs", timeout=20)
    await other.close()
    await reader.execute("commit")
    assert 2 in await migrating
    await submit(old, job())


async def test_a_migration_gives_up_when_nobody_makes_room(
    old: PostgresStore, reader: "Session[asyncpg.Record]", monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock_wait, "PATIENCE", 0.1)
    with pytest.raises(StoreUnavailable, match=r"migration 2 did not get its turn within 0.1 s: process \d+ \(report"):
        await old.migrate()
    await reader.execute("commit")
    assert 2 in await old.migrate()
