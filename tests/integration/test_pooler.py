"""Behind a pooler that gives every transaction another session."""

import pytest

from duetime import StoreError
from duetime.store.postgres import PostgresStore
from tests.support.pooler import pooler_to, work_through


async def test_without_prepared_statements_everything_works(migrated: str) -> None:
    async with pooler_to(migrated) as pooler:
        await work_through(pooler.dsn)
        assert pooler.transactions > 100


async def test_with_prepared_statements_such_a_pooler_is_refused_by_the_database(migrated: str) -> None:
    """What the setting is for: a statement that was prepared on one session is unknown to the next."""
    async with pooler_to(migrated) as pooler:
        store = PostgresStore(pooler.dsn)
        with pytest.raises(StoreError, match="prepared statement"):
            await store.open()
            for _ in range(10):
                await store.reads.counts()
        await store.close()
