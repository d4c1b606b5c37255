"""What the watch for stuck runs counts, on both databases."""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest

from chaos import stuck
from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import Hand, hand, job, submit

Ask = Callable[[str], Awaitable[list[str]]]


@pytest.fixture(params=["sqlite", "postgres"])
async def watched(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Store, Ask]]:
    """A store, and how the watch asks its database."""
    if request.param == "sqlite":
        file = SqliteStore(tmp_path / "duetime.db")

        async def ask_file(statement: str) -> list[str]:
            rows = await file.database.run(lambda connection, _: connection.raw.execute(statement).fetchall())
            return [row[0] for row in rows]

        await file.open()
        await file.migrate()
        yield file, ask_file
        await file.close()
        return
    store = PostgresStore(request.getfixturevalue("database"))
    await store.open()
    await store.migrate()
    connection = await asyncpg.connect(store.database.url)

    async def ask(statement: str) -> list[str]:
        return [row[0].replace("-", "") for row in await connection.fetch(statement)]

    yield store, ask
    await connection.close()
    await store.close()


async def claimed(store: Store) -> tuple[Hand, Claimed]:
    worker = await hand(store)
    await submit(store, job())
    return worker, await worker.claim_one()


def words(store: Store) -> tuple[str, str]:
    """What asks for stuck runs, and what the schema is called."""
    return (stuck.SQLITE, "") if isinstance(store, SqliteStore) else (stuck.POSTGRES, "duetime.")


async def test_a_run_whose_claim_is_gone_is_stuck(watched: tuple[Store, Ask]) -> None:
    store, ask = watched
    _, run = await claimed(store)
    statement, schema = words(store)
    assert await ask(statement) == []
    await ask(f"delete from {schema}claims")
    assert await ask(statement) == [run.run_id.hex]


async def test_a_run_that_was_handed_over_is_stuck_when_nothing_says_until_when(watched: tuple[Store, Ask]) -> None:
    store, ask = watched
    worker, run = await claimed(store)
    verdict = Verdict(Event.HAND_OVER, timedelta(hours=1))
    over = Completion(run.run_id, run.fence, verdict, AttemptState.HANDED_OVER)
    assert not (await worker.complete(over, closed=[worker.claim_no])).refused
    await store.leases.leave(worker.id)
    statement, schema = words(store)
    assert await ask(statement) == [], "it needs no worker"
    await ask(f"update {schema}handovers set fence = fence - 1")
    assert await ask(statement) == [run.run_id.hex], "that is of an attempt before"
    await ask(f"delete from {schema}handovers")
    assert await ask(statement) == [run.run_id.hex]
