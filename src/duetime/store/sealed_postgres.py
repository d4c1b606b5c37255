"""PostgreSQL, with sealed arguments where a tenant asks for them."""

from duetime.store.postgres import PostgresStore
from duetime.store.sealed import SealedArguments


class SealedPostgresStore(SealedArguments, PostgresStore):
    """See `duetime.store.sealed`."""
