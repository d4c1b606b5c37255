"""SQLite, with sealed content where a tenant asks for it."""

from duetime.store.sqlite import SqliteStore
from duetime.store.wrappers.sealed import SealedContent


class SealedSqliteStore(SealedContent, SqliteStore):  # type: ignore[misc]
    """See `duetime.store.wrappers.sealed`."""
