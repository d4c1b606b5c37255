"""SQLite, with sealed content where a tenant asks for it."""

from duetime.store.sealed import SealedContent
from duetime.store.sqlite import SqliteStore


class SealedSqliteStore(SealedContent, SqliteStore):  # type: ignore[misc]
    """See `duetime.store.sealed`."""
