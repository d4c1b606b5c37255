"""Rows of limits: who waits for whom, and how long nodes that have not heard of one are waited for. What waits for none
is in `test_busy_limits.py`."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import asyncpg
import pytest

from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.limits import QueueLimits
from duetime.model.tenant import TenantChange, TenantLimits
from duetime.store.postgres import PostgresStore
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import PostgresTime, PostgresWorld, execute, query
from tests.support.waiting import eventually

DAY = timedelta(days=1)
Session = asyncpg.Connection
_WAITING = "select count(*) from pg_locks where not granted"

WAYS: dict[str, Callable[[PostgresStore], Awaitable[object]]] = {
    "queue": lambda store: store.queues.limit_queue(TENANT, "default", QueueLimits(running=5)),
    "tenant": lambda store: store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(running_runs=5))),
}


async def test_a_clock_that_is_put_back_does_not_make_a_limit_new_for_ever(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    """While it is new, each claim looks at all that runs, for what nodes have claimed that had not heard of it."""
    worker = await hand(store, DAY)
    await store.queues.limit_queue(TENANT, "default", QueueLimits(running=5))
    time.advance(hours=-1)
    for seconds in (0, 3):
        time.advance(seconds=seconds)
        await submit(store, job())
        assert len(await worker.claim()) == 1
    assert query(world.dsn, "select set_at from duetime.limits") == [(None,)]


@pytest.mark.parametrize("way", WAYS)
async def test_what_counts_already_is_not_held_when_a_limit_is_set(
    store: PostgresStore, session: "Session[asyncpg.Record]", way: str
) -> None:
    """A session that ends runs locks their holds; if setting a limit did too, the two would lock in opposite orders."""
    worker = await hand(store, DAY)
    await submit(store, job(), job())
    await worker.claim()
    await WAYS[way](store)
    async with session.transaction():
        assert len(await session.fetch("select 1 from duetime.holds for update")) == 2
        async with asyncio.timeout(5):
            await WAYS[way](store)


@pytest.mark.parametrize("way", WAYS)
async def test_a_limit_that_meets_a_deadlock_is_set_again(
    store: PostgresStore, world: PostgresWorld, session: "Session[asyncpg.Record]", way: str
) -> None:
    worker = await hand(store, DAY)
    await submit(store, job())
    run = await worker.claim_one()
    await WAYS[way](store)
    [(limit_id,)] = query(world.dsn, "select id from duetime.limits")
    execute(world.dsn, "delete from duetime.holds")
    # A session checks for a deadlock once, after it has waited this long. Only the one that sets the limit may check
    # while there is one, so that it is the session that is aborted.
    await session.execute("set deadlock_timeout = '1min'")
    setting_store = PostgresStore(f"{world.dsn}?deadlock_timeout=2s")
    await setting_store.open()
    try:
        async with session.transaction():
            await session.execute(
                "insert into duetime.holds values ($1, $2, $3, now())", limit_id, run.run_id, run.fence
            )
            setting = asyncio.create_task(WAYS[way](setting_store))  # type: ignore[arg-type]
            await eventually(lambda: _somebody_waits(world))
            await session.execute("update duetime.limits set used_at = used_at")  # now each waits for the other
        await asyncio.wait_for(setting, 30)
    finally:
        await setting_store.close()
    assert query(world.dsn, "select run_id from duetime.holds") == [(run.run_id,)]


async def test_breakers_do_not_wait_for_each_other(
    store: PostgresStore, world: PostgresWorld, session: "Session[asyncpg.Record]", time: PostgresTime
) -> None:
    for target in ("count", "greet"):
        await store.breakers.report_attempts([Tally(TENANT, target, 20, 20, 0)], BreakerPolicy())
    time.advance(seconds=6)

    async def is_probed() -> bool:
        return bool(query(world.dsn, "select 1 from duetime.breakers where target = 'count' and state = 2"))

    async with session.transaction():
        await session.execute("select 1 from duetime.limits where name = 'greet' for update")
        advancing = asyncio.create_task(store.breakers.advance_breakers())
        await eventually(is_probed, what="the one whose limit is not locked")
    assert await asyncio.wait_for(advancing, 10) == 2


async def _somebody_waits(world: PostgresWorld) -> bool:
    return bool(query(world.dsn, _WAITING)[0][0])
