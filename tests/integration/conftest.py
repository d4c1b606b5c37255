"""An app on a fresh database, once on each store."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetime import App
from tests.support import databases
from tests.support.postgres import Server
from tests.support.served import Served, serving
from tests.support.working import quick_settings


@pytest.fixture
def migrated(postgres: Server) -> str:
    """The dsn of an empty database with the schema in it."""
    return databases.migrated(postgres).take()


@pytest.fixture
def migrated_on_each(each_postgres: Server) -> str:
    """The same, once on each PostgreSQL that is here."""
    return databases.migrated(each_postgres).take()


@pytest.fixture(params=["sqlite", "postgres"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{databases.sqlite_file(tmp_path / 'duetime.db')}"
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
