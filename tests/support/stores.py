"""Stores of PostgreSQL that a test opens by their address."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from duetime.store.postgres import PostgresStore


@asynccontextmanager
async def opened(dsn: str, **options: Any) -> AsyncIterator[PostgresStore]:
    """`options` are those of the store's constructor."""
    store = PostgresStore(dsn, **options)
    await store.open()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def filled(dsn: str, *scripts: str) -> AsyncIterator[PostgresStore]:
    """A store with one connection. The first one on a new database creates the schema and runs the scripts."""
    async with opened(dsn, pool_size=1) as store:
        if await store.migrate():
            async with store.database.connection() as connection:
                for script in scripts:
                    await connection.execute(script, timeout=300)
        yield store
