"""What the roles that both stores share are written over."""

import asyncio
from datetime import timedelta
from uuid import UUID

import pytest

from duetime.errors import InvalidInput
from duetime.ids import new_id
from duetime.store.postgres import PostgresStore
from duetime.store.shared.transaction import NotUnique, Transaction
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import TENANT

Either = PostgresStore | SqliteStore


async def test_work_that_fails_leaves_nothing_and_spares_the_others(store: Either) -> None:
    async def fails(transaction: Transaction) -> None:
        await transaction.execute("keep_secret", name="lost", fresh=b"1")
        raise InvalidInput("no")

    async def succeeds(transaction: Transaction) -> str:
        await transaction.execute("keep_secret", name="kept", fresh=b"2")
        return "done"

    works = [store.context.transactions.run(work) for work in (fails, succeeds)]
    failed, done = await asyncio.gather(*works, return_exceptions=True)
    assert isinstance(failed, InvalidInput) and done == "done"
    kept = [await store.context.transactions.value("find_secret", name=name) for name in ("lost", "kept")]
    assert kept == [None, b"2"]


async def test_values_of_a_subclass_are_values_of_its_class(store: Either) -> None:
    class Id(UUID):
        """As asyncpg has its own."""

    class Duration(timedelta):
        """As pendulum has its own."""

    key = Id(bytes=new_id().bytes)
    await store.context.transactions.of(TENANT).execute("put_payload", tenant_id=TENANT, id=key, body=b"1")
    assert await store.context.transactions.reading(TENANT).value("find_payload", tenant_id=TENANT, id=key) == b"1"
    assert await store.context.transactions.value("take_notifying", holder=key, period=Duration(1)) is None


async def test_values_come_back_as_they_were_given(store: Either) -> None:
    key = new_id()
    await store.context.transactions.of(TENANT).execute("put_payload", tenant_id=TENANT, id=key, body=b"\x00\xff")
    assert (
        await store.context.transactions.reading(TENANT).value("find_payload", tenant_id=TENANT, id=key) == b"\x00\xff"
    )
    assert await store.context.transactions.value("take_notifying", holder=key, period=timedelta(1)) is None
    assert list(await store.context.transactions.rows("tenants_of_runs", ids=[])) == []


async def test_many_are_stored_together_or_not_at_all(store: Either) -> None:
    key = new_id()
    one = {"id": key, "tenant_id": TENANT, "body": b""}
    with pytest.raises(NotUnique):
        await store.context.transactions.of(TENANT).many("put_payload", [{**one, "id": new_id()}, one, one])
    assert await store.context.transactions.value("find_payload", tenant_id=TENANT, id=key) is None
    await store.context.transactions.of(TENANT).many("put_payload", [])
