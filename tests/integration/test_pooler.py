"""Behind a pooler that gives every transaction another session."""

import asyncio

import msgspec
import pytest

from duetime import App, RunState, StoreError
from duetime.store.postgres import PostgresStore
from tests.support.pooler import pooler_to
from tests.support.working import ended, quick_settings, working


async def test_without_prepared_statements_everything_works(migrated: str) -> None:
    async with pooler_to(migrated) as pooler:
        settings = msgspec.structs.replace(quick_settings(pooler.dsn), prepared_statements="off")
        async with App(settings=settings) as app:

            @app.task
            async def double(number: int) -> int:
                return 2 * number

            @app.task
            async def never() -> None:
                await asyncio.Event().wait()

            async with working(app):
                receipts = await app.submit_many([double.bind(number=number) for number in range(50)])
                runs = [await ended(app, receipt) for receipt in receipts]
                assert [run.value for run in runs] == [2 * number for number in range(50)]
                await app.schedule(double.bind(number=1), every="1h", key="hourly")
                assert not (await app.schedule(double.bind(number=1), every="1h", key="hourly")).created
                stopped = await never.submit()
                await app.cancel(stopped)
                assert (await ended(app, stopped)).state is RunState.CANCELLED
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
