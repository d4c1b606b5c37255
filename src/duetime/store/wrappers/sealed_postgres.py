"""PostgreSQL, with sealed content where a tenant asks for it."""

from duetime.store.postgres import PostgresStore
from duetime.store.wrappers.sealed import SealedContent


class SealedPostgresStore(SealedContent, PostgresStore):
    """See `duetime.store.wrappers.sealed`."""
