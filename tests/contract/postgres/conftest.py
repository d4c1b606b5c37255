"""The PostgreSQL stores under test, and a connection of another session."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from duetime.store.postgres import PostgresStore
from tests.contract.conftest import CHOSEN
from tests.contract.worlds import PostgresTime, PostgresWorld


@pytest.fixture(params=CHOSEN, ids=str)
def world(request: pytest.FixtureRequest) -> PostgresWorld:
    return PostgresWorld(request.param)


@pytest.fixture
async def store(world: PostgresWorld) -> AsyncIterator[PostgresStore]:
    await world.store.open()
    yield world.store
    await world.store.close()


@pytest.fixture
def time(world: PostgresWorld) -> PostgresTime:
    return world.time


@pytest.fixture
async def session(world: PostgresWorld) -> AsyncIterator["asyncpg.Connection[asyncpg.Record]"]:
    """A connection that no store uses."""
    connection = await asyncpg.connect(world.dsn)
    yield connection
    await connection.close()
