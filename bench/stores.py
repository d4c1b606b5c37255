"""Databases to measure on: a PostgreSQL server of the benchmark's own, and SQLite files in a folder of its own."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from duetime.store.postgres import PostgresStore
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.support.postgres import Server

AnyStore = TypeVar("AnyStore", bound=Store)

SERVER_OPTIONS = {
    "shared_buffers": "2GB",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "15min",
}
"""As one would set a server of this size; commits stay durable (synchronous_commit and fsync are on)."""


class Databases:
    def __init__(self, server: Server, folder: Path) -> None:
        self.server = server
        self._folder = folder
        self._made: list[str] = []

    def postgres(self) -> str:
        """An empty database; those made before it are dropped, so that a long run does not fill the disk."""
        for name in self._made:
            self.server.drop_database(name)
        self._made = [f"bench_{uuid.uuid4().hex}"]
        return self.server.create_database(self._made[0])

    def file(self) -> Path:
        return self._folder / f"{uuid.uuid4().hex}.db"

    @asynccontextmanager
    async def store(self, kind: str) -> AsyncIterator[Store]:
        """An empty store of a kind: `postgres` or `sqlite`."""
        empty: Store = PostgresStore(self.postgres()) if kind == "postgres" else SqliteStore(self.file())
        async with migrated(empty) as store:
            yield store


@asynccontextmanager
async def migrated(store: AnyStore) -> AsyncIterator[AnyStore]:
    """A store, open and with its tables."""
    await store.open()
    try:
        await store.migrate()
        yield store
    finally:
        await store.close()
