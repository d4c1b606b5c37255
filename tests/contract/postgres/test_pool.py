"""The LIFO pool: never a broken connection, and none that another caller waits for."""

import asyncio
from collections.abc import AsyncIterator
from typing import TypeAlias

import asyncpg
import pytest

from duetime.errors import StoreUnavailable
from duetime.store.postgres.database import Database
from duetime.store.postgres.pool import LifoPool
from tests.contract.worlds import PostgresWorld
from tests.support.waiting import eventually

Session: TypeAlias = "asyncpg.Connection[asyncpg.Record]"
WHO = "select pg_backend_pid()"


@pytest.fixture
async def database(world: PostgresWorld) -> AsyncIterator[Database]:
    database = Database(world.dsn, size=2)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
async def pool(world: PostgresWorld) -> AsyncIterator["asyncpg.Pool[asyncpg.Record]"]:
    async with asyncpg.create_pool(world.dsn, min_size=0, max_size=2) as pool:
        yield pool


async def who(database: Database) -> int:
    async with database.connection() as connection:
        pid: int = await connection.fetchval(WHO)
        return pid


async def end(session: Session, pid: int) -> None:
    await session.execute("select pg_terminate_backend($1)", pid)


async def test_one_after_the_other_they_share_a_connection(database: Database) -> None:
    first = await who(database)
    assert [await who(database) for _ in range(3)] == [first] * 3
    assert database.used == 0


async def test_who_works_at_the_same_time_has_one_of_his_own(database: Database) -> None:
    async with database.connection() as one, database.connection() as other:
        assert await one.fetchval(WHO) != await other.fetchval(WHO)
        assert database.used == 2
    assert database.used == 0


async def test_one_that_the_server_ended_while_nobody_had_it_is_not_lent_again(
    database: Database, session: Session
) -> None:
    first = await who(database)
    await end(session, first)
    await asyncio.sleep(0.2)  # it hears of its end
    assert await who(database) != first
    assert database.used == 0


async def test_one_that_ends_on_its_way_back_is_no_error(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    cache = LifoPool(pool, timeout=5)
    connection = await cache.take()
    # The pool takes it back in a task of its own, which begins after this.
    asyncio.get_running_loop().call_soon(connection.terminate)
    await cache.give_back(connection)
    assert cache.used == 0
    again = await cache.take()
    assert await again.fetchval("select 1") == 1
    await cache.give_back(again)


async def test_one_that_ended_in_somebodys_hands_is_not_lent_again(database: Database, session: Session) -> None:
    async with database.connection() as connection:
        first = await connection.fetchval(WHO)
        await end(session, first)
        await asyncio.sleep(0.2)
    assert await who(database) != first
    assert database.used == 0


async def test_who_works_on_one_that_ends_is_told_so(database: Database, session: Session) -> None:
    for begin in (database.connection, database.transaction, lambda: database.acting_for(1)):
        with pytest.raises(StoreUnavailable):
            async with begin() as connection:
                await end(session, await connection.fetchval(WHO))
                await asyncio.sleep(0.2)
                await connection.fetchval(WHO)
        assert await who(database)
        assert database.used == 0


async def test_who_waits_gets_what_comes_back(database: Database) -> None:
    served = []

    async def ask(number: int) -> None:
        for _ in range(20):
            await who(database)
        served.append(number)

    async with asyncio.timeout(20):
        await asyncio.gather(*(ask(number) for number in range(8)))
    assert sorted(served) == list(range(8))


async def test_a_statement_that_was_given_up_hurts_nobody_else(database: Database) -> None:
    async def sleep() -> None:
        async with database.connection() as connection:
            await connection.execute("select pg_sleep(30)")

    for _ in range(4):
        sleeping = asyncio.create_task(sleep())
        await asyncio.sleep(0.05)
        sleeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sleeping
    async with asyncio.timeout(10):
        assert await who(database)


async def test_one_whose_transaction_is_open_is_not_lent_as_it_is(database: Database) -> None:
    async with database.connection() as connection:
        await connection.execute("begin")
    async with database.connection() as connection:
        assert not connection.is_in_transaction()


async def test_what_nobody_asks_for_goes_back_to_the_pool(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    cache = LifoPool(pool, timeout=5, unused=0.2)
    one, other = await cache.take(), await cache.take()
    assert cache.keep(one) and cache.keep(other)
    await eventually(lambda: pool.get_idle_size() == 2)
    assert cache.at_hand() is None
    await cache.close()


async def test_what_is_in_use_stays(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    cache = LifoPool(pool, timeout=5, unused=0.1)
    one, other = await cache.take(), await cache.take()
    assert cache.keep(one) and cache.keep(other)
    async with asyncio.timeout(10):
        while pool.get_idle_size() < 1:
            used = cache.at_hand()
            assert used is other, "the one that came back last"
            assert cache.keep(used)
            await asyncio.sleep(0.02)
    assert cache.at_hand() is other
    await cache.give_back(other)
    await cache.close()


async def test_closing_that_is_given_up_ends_all_sessions(
    pool: "asyncpg.Pool[asyncpg.Record]", session: Session
) -> None:
    cache = LifoPool(pool, timeout=5)
    one, other = await cache.take(), await cache.take()
    pids = [await connection.fetchval(WHO) for connection in (one, other)]
    assert cache.keep(other)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await cache.close()

    async def are_gone() -> bool:
        return not await session.fetchval("select count(*) from pg_stat_activity where pid = any($1::int[])", pids)

    await eventually(are_gone)


async def test_who_is_told_to_stop_hears_of_nothing_else(database: Database, session: Session) -> None:
    """Also where the connection breaks at the same moment, so that neither a rollback nor the pool gets an answer."""
    pid = asyncio.get_running_loop().create_future()

    async def work() -> None:
        async with database.transaction() as connection:
            pid.set_result(await connection.fetchval(WHO))
            await connection.execute("select pg_sleep(30)")

    working = asyncio.create_task(work())
    ending = asyncio.create_task(end(session, await pid))
    await asyncio.sleep(0)  # it is on its way to the server, whose answer must not come before the task is cancelled
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    await ending
    assert await who(database)
    assert database.used == 0


async def test_closing_waits_for_who_is_at_work_and_no_longer(pool: "asyncpg.Pool[asyncpg.Record]") -> None:
    cache = LifoPool(pool, timeout=5)
    one, other = await cache.take(), await cache.take()
    assert cache.keep(other)
    closing = asyncio.create_task(cache.close())
    await asyncio.sleep(0.1)
    assert not closing.done()
    assert not cache.keep(one)
    await cache.give_back(one)
    async with asyncio.timeout(5):
        await closing
