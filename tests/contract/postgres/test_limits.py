"""Rows of limits: how long nodes that have not heard of one are waited for."""

from datetime import timedelta

from duetime.model.limits import QueueLimits
from duetime.store.postgres import PostgresStore
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import PostgresTime, PostgresWorld, query

DAY = timedelta(days=1)


async def test_a_clock_that_is_put_back_does_not_make_a_limit_new_for_ever(
    store: PostgresStore, world: PostgresWorld, time: PostgresTime
) -> None:
    """While it is new, each claim looks at all that runs, for what nodes have claimed that had not heard of it."""
    worker = await hand(store, DAY)
    await store.limit_queue(TENANT, "default", QueueLimits(running=5))
    time.advance(hours=-1)
    for seconds in (0, 3):
        time.advance(seconds=seconds)
        await submit(store, job())
        assert len(await worker.claim()) == 1
    assert query(world.dsn, "select set_at from duetime.limits") == [(None,)]
