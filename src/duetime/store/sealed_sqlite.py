"""SQLite, with sealed arguments where a tenant asks for them."""

from duetime.store.sealed import SealedArguments
from duetime.store.sqlite import SqliteStore


class SealedSqliteStore(SealedArguments, SqliteStore):  # type: ignore[misc]
    """See `duetime.store.sealed`."""
