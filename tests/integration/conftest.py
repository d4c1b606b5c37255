"""An app on a fresh database, once on each store."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path

import pytest

from duetime import App
from duetime.store.postgres import PostgresStore
from tests.support.postgres import Server
from tests.support.served import Served, serving
from tests.support.working import quick_settings


@pytest.fixture
def migrated(postgres: Server) -> Iterator[str]:
    """The dsn of a fresh database with the schema in it."""
    yield from _migrated(postgres)


@pytest.fixture
def migrated_on_each(each_postgres: Server) -> Iterator[str]:
    """The same, once on each PostgreSQL that is here."""
    yield from _migrated(each_postgres)


def _migrated(server: Server) -> Iterator[str]:
    name = f"test_{uuid.uuid4().hex}"
    yield server.create_database(name, template=_template(server))
    server.drop_database(name)


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'duetime.db'}"
    dsn: str = request.getfixturevalue("migrated")
    return dsn


@pytest.fixture
async def app(database_url: str) -> AsyncIterator[App]:
    """An app without tasks on an empty store; the test runs once on each kind."""
    async with App(settings=quick_settings(database_url)) as app:
        yield app


@pytest.fixture
async def served(app: App) -> AsyncIterator[Served]:
    """A server on the app's own store."""
    async with serving(await app.store(), app.settings) as served:
        yield served


@pytest.fixture
async def postgres_app(migrated: str) -> AsyncIterator[App]:
    async with App(settings=quick_settings(migrated)) as app:
        yield app


@cache
def _template(server: Server) -> str:
    """Copying a database takes a fifth of the time that migrating one does."""
    name = "integration_template"
    dsn = server.create_database(name)
    with asyncio.Runner() as runner:
        runner.run(_migrate(dsn))
    return name


async def _migrate(dsn: str) -> None:
    store = PostgresStore(dsn)
    await store.open()
    await store.migrate()
    await store.close()
