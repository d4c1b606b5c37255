"""The store under test, and time."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest
import uvloop

from duetime.store.protocol.store import Store
from tests.conftest import INSTALLED
from tests.contract.worlds import PostgresWorld, SqliteWorld, Time, World, unmigrated
from tests.support.postgres import Binaries

# What speaks to one PostgreSQL in particular (plans, migrations, row security) is tested on each that is here anyway.
CHOSEN = INSTALLED if os.environ.get("DUETIME_TEST_EVERY_POSTGRES") else INSTALLED[:1]
WORLDS = [
    pytest.param(None, id="sqlite"),
    *(pytest.param(binaries, id=f"postgres-{binaries}") for binaries in CHOSEN),
]
on_sqlite = pytest.mark.parametrize("world", WORLDS[:1], indirect=True)
on_postgres = pytest.mark.parametrize("world", WORLDS[1:], indirect=True)


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """The loop of a server and of `duetime worker`. Tests of what is above the stores use that of an application."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """The test runs once in each world."""
    binaries: Binaries | None = request.param
    return SqliteWorld(tmp_path / "duetime.db") if binaries is None else PostgresWorld(binaries)


@pytest.fixture
async def store(world: World) -> AsyncIterator[Store]:
    """An open, empty store."""
    await world.store.open()
    yield world.store
    await world.store.close()


@pytest.fixture
async def other(world: World, store: Store) -> AsyncIterator[Store]:
    """A second store beside the first."""
    other = world.another()
    await other.open()
    yield other
    await other.close()


@pytest.fixture
def time(world: World) -> Time:
    """The store's clock: it stands still until the test moves it."""
    return world.time


@pytest.fixture
async def empty_stores(world: World, tmp_path: Path) -> AsyncIterator[tuple[Store, Store]]:
    """Two stores on one database without a schema."""
    async with unmigrated(world, tmp_path / "empty.db") as stores:
        yield stores


@pytest.fixture
def empty_store(empty_stores: tuple[Store, Store]) -> Store:
    return empty_stores[0]


@pytest.fixture
def empty_twin(empty_stores: tuple[Store, Store]) -> Store:
    return empty_stores[1]
