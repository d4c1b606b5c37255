"""Reading facts about a PostgreSQL server, and about a pooler in front of it. Changes nothing, and needs no schema."""

from typing import Literal

import msgspec

from duetime.store.postgres.database import SQL, Connection, Database

Pooling = Literal["session", "transaction"]


class ServerFindings(msgspec.Struct, frozen=True):
    version: str
    number: int
    """Such as 150004."""
    in_recovery: bool
    read_only: bool
    fsync: bool
    synchronous_commit: str
    full_page_writes: bool
    isolation: str
    """Of a statement outside a transaction block."""
    autovacuum: bool
    statement_timeout: float
    """Seconds; 0: none."""
    connections: int
    most_connections: int
    oldest_transaction: float
    """Seconds for which the oldest transaction of the server is open: vacuum removes nothing that ended since."""
    database_bytes: int
    pooling: Pooling | None
    """None: there is no pooler."""


async def inspect_server(url: str) -> ServerFindings:
    """Raises `StoreError` when the server cannot be reached."""
    database = Database(url, prepared=False)
    one = await database.connect()
    try:
        with database.meaning():
            row = await one.fetchrow(SQL["server_facts"])
            pooling = await _pooling(database, one)
        assert row is not None
        return msgspec.convert({**row, "pooling": pooling}, ServerFindings)
    finally:
        await one.close()


async def _pooling(database: Database, one: Connection) -> Pooling | None:
    """A pooler answers with a process number of its own. It pools transactions if a second session uses the backend
    that the first one used, while both are connected."""
    backend = await one.fetchval("select pg_backend_pid()")
    if backend == one.get_server_pid():
        return None
    another = await database.connect()
    try:
        shared = await another.fetchval("select pg_backend_pid()") == backend
    finally:
        await another.close()
    return "transaction" if shared else "session"
