"""Connections of the caller's own, as different drivers make them, each inside a transaction of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import psycopg
import pytest
from psycopg.rows import dict_row, namedtuple_row, scalar_row

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


DRIVERS = pytest.mark.parametrize(
    "connect",
    [
        with_asyncpg,
        with_pool,
        with_psycopg,
        rows_as(dict_row),
        rows_as(namedtuple_row),
        rows_as(scalar_row),
    ],
    ids=["asyncpg", "asyncpg pool", "psycopg", "psycopg dicts", "psycopg named tuples", "psycopg scalars"],
)
