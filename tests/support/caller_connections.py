"""Connections of the caller's own, as different drivers make them, each inside a transaction of its own."""

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row, scalar_row
from sqlalchemy import create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool

from duetime import App


def dsn(app: App) -> str:
    assert app.settings.database_url is not None
    return app.settings.database_url


@asynccontextmanager
async def with_asyncpg(app: App) -> AsyncIterator[Any]:
    """A connection with an open transaction; commits, or rolls back if the block raises."""
    connection = await asyncpg.connect(dsn(app))
    try:
        async with connection.transaction():
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def with_pool(app: App) -> AsyncIterator[Any]:
    async with (
        asyncpg.create_pool(dsn(app), min_size=1, max_size=1) as pool,
        pool.acquire() as connection,
        connection.transaction(),
    ):
        yield connection


@asynccontextmanager
async def with_psycopg(app: App) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(dsn(app)) as connection:
        yield connection


def rows_as(factory: Any) -> Any:
    @asynccontextmanager
    async def connect(app: App) -> AsyncIterator[Any]:
        async with await psycopg.AsyncConnection.connect(dsn(app), row_factory=factory) as connection:
            yield connection

    return connect


def alchemy_url(dsn: str, driver: str) -> str:
    """SQLAlchemy's form of an address."""
    kind, rest = dsn.split("://", 1)
    return f"{'postgresql' if kind.startswith('postgres') else kind}+{driver}://{rest}"


def with_alchemy(driver: str, *, session: bool) -> Any:
    @asynccontextmanager
    async def connect(app: App) -> AsyncIterator[Any]:
        engine = create_async_engine(alchemy_url(dsn(app), driver), poolclass=NullPool)
        if session:
            async with AsyncSession(engine) as opened, opened.begin():
                yield opened
        else:
            async with engine.begin() as connection:
                yield connection

    return connect


async def execute(connection: Any, statement: str) -> None:
    """A statement on any of these connections."""
    of_alchemy = type(connection).__module__.startswith("sqlalchemy")
    await connection.execute(text(statement) if of_alchemy else statement)


ASYNC = {
    "asyncpg": with_asyncpg,
    "asyncpg pool": with_pool,
    "psycopg": with_psycopg,
    "psycopg dicts": rows_as(dict_row),
    "psycopg named tuples": rows_as(namedtuple_row),
    "psycopg scalars": rows_as(scalar_row),
    "alchemy asyncpg": with_alchemy("asyncpg", session=False),
    "alchemy psycopg": with_alchemy("psycopg", session=False),
    "alchemy session": with_alchemy("asyncpg", session=True),
}
DRIVERS = pytest.mark.parametrize("connect", ASYNC.values(), ids=list(ASYNC))
OF_FILES = {
    "aiosqlite": with_alchemy("aiosqlite", session=False),
    "aiosqlite session": with_alchemy("aiosqlite", session=True),
}


# Blocking connections: each is a context manager of a connection, which commits, or rolls back if the block raises.


def blocking_psycopg(url: str) -> Any:
    return psycopg.connect(url)


@contextmanager
def blocking_sqlite(url: str) -> Iterator[Any]:
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as connection, connection:
        connection.row_factory = sqlite3.Row
        yield connection


@contextmanager
def blocking_alchemy(url: str) -> Iterator[Any]:
    driver = "pysqlite" if url.startswith("sqlite") else "psycopg"
    with create_engine(alchemy_url(url, driver), poolclass=NullPool).begin() as connection:
        yield connection


@contextmanager
def blocking_session(url: str) -> Iterator[Any]:
    driver = "pysqlite" if url.startswith("sqlite") else "psycopg"
    engine = create_engine(alchemy_url(url, driver), poolclass=NullPool)
    with Session(engine) as session, session.begin():
        yield session


@contextmanager
def blocking_scoped_session(url: str) -> Iterator[Any]:
    """As Flask-SQLAlchemy's `db.session`."""
    driver = "pysqlite" if url.startswith("sqlite") else "psycopg"
    made = scoped_session(sessionmaker(create_engine(alchemy_url(url, driver), poolclass=NullPool)))
    with made.begin():
        yield made
    made.remove()


@contextmanager
def blocking_django(url: str) -> Iterator[Any]:
    import django
    from django.conf import settings
    from django.db.utils import ConnectionHandler

    if not settings.configured:
        settings.configure(USE_TZ=True)
        django.setup()
    if url.startswith("sqlite"):
        database: dict[str, Any] = {"ENGINE": "django.db.backends.sqlite3", "NAME": url.removeprefix("sqlite:///")}
    else:
        parts = urlsplit(url)
        database = {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": parts.path[1:],
            "HOST": parts.hostname,
            "PORT": parts.port,
            "USER": parts.username,
        }
    connection = ConnectionHandler({"default": database})["default"]
    try:
        connection.set_autocommit(False)
        try:
            yield connection
        except BaseException:
            connection.rollback()
            raise
        connection.commit()
    finally:
        connection.close()


BLOCKING = {
    "psycopg": blocking_psycopg,
    "sqlite3": blocking_sqlite,
    "alchemy": blocking_alchemy,
    "session": blocking_session,
    "scoped session": blocking_scoped_session,
    "django": blocking_django,
}
_BOTH = [kind for kind in BLOCKING if kind not in ("psycopg", "sqlite3")]
BLOCKING_BY_STORE = {"postgres": ["psycopg", *_BOTH], "sqlite": ["sqlite3", *_BOTH]}
