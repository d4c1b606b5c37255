"""Databases to measure on: a PostgreSQL server of the benchmark's own, and SQLite files in a folder of its own."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from duetime.store.postgres import PostgresStore
from duetime.store.protocol import Store
from duetime.store.sqlite import SqliteStore
from tests.support.postgres import Server


class Databases:
    def __init__(self, server: Server, folder: Path) -> None:
        self._server = server
        self._folder = folder

    def postgres(self) -> str:
        return self._server.create_database(f"bench_{uuid.uuid4().hex}")

    def file(self) -> Path:
        return self._folder / f"{uuid.uuid4().hex}.db"

    @asynccontextmanager
    async def store(self, kind: str) -> AsyncIterator[Store]:
        """An empty store of a kind: `postgres` or `sqlite`."""
        store: Store = PostgresStore(self.postgres()) if kind == "postgres" else SqliteStore(self.file())
        await store.open()
        try:
            await store.migrate()
            yield store
        finally:
            await store.close()
