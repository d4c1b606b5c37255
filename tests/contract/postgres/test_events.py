"""Events while transactions are open: none waits for a transaction other than its own, and none is passed by."""

import asyncio
from datetime import timedelta
from random import Random
from typing import TYPE_CHECKING
from uuid import UUID

from duetime.ids import new_id
from duetime.model.event import Event, EventKind
from duetime.model.notification import Subscription, Topic, Webhook
from duetime.store.postgres import PostgresStore
from tests.contract.hands import STRANGER, TENANT, hand, job, submit
from tests.contract.worlds import PostgresWorld, Time

if TYPE_CHECKING:
    import asyncpg
    from asyncpg import Connection as Session

HOUR = timedelta(hours=1)
HOOK = Subscription("ops", Webhook("https://ops.example.com/"), (Topic.RUN_FAILED,))
TELL = "insert into duetime.events (at, kind, tenant_id, ids) values (duetime.now(), 1, $1, array[$2::uuid])"


def told(events: list[Event]) -> list[UUID]:
    return [each for event in events for each in event.ids]


async def test_no_event_waits_for_a_transaction_that_told_nothing(
    store: PostgresStore, session: "Session[asyncpg.Record]"
) -> None:
    """Such as a long import, also into another database of the server."""
    async with session.transaction():
        await session.execute("select pg_current_xact_id()")
        mark = await store.events.keep_listening(HOUR)
        await store.notifications.put_subscription(TENANT, HOOK)
        submitted = await submit(store, job())
        assert told(await store.events.events(mark)) == [submitted.job_id]
        begin = await store.notifications.take_notifying(new_id(), HOUR)
        assert begin is not None
        assert told(await store.events.events(begin)) == [submitted.job_id]


async def test_no_event_waits_for_a_caller_who_keeps_a_transaction_open(
    store: PostgresStore, session: "Session[asyncpg.Record]", time: Time
) -> None:
    """What it told itself comes when it commits, after what was read meanwhile, however old it is by then."""
    mark = await store.events.keep_listening(timedelta(days=9))
    worker = await hand(store, timedelta(days=9))
    first = await submit(store, job())
    run = await worker.claim_one()
    before = await store.events.events(mark)
    mark = before[-1].mark
    async with session.transaction():
        await store.caller_transactions.complete_within(session, worker.id, run.run_id, run.fence, None, None)
        inside = await store.caller_transactions.submit_within(session, TENANT, job())
        other = await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
        (seen,) = await store.events.events(mark)
        assert seen.ids == (other.job_id,)
        time.advance(days=2)
        await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    late = await store.events.events(seen.mark)
    assert [(event.kind, event.ids) for event in late] == [
        (EventKind.SUCCEEDED, (run.run_id,)),
        (EventKind.SUBMITTED, (inside,)),
    ]
    assert told(before) == [first.job_id, run.run_id]
    assert await store.events.events(late[-1].mark) == []


async def test_what_was_rolled_back_is_not_told(store: PostgresStore, session: "Session[asyncpg.Record]") -> None:
    mark = await store.events.keep_listening(HOUR)
    transaction = session.transaction()
    await transaction.start()
    await session.execute(TELL, TENANT, new_id())
    submitted = await submit(store, job())
    await transaction.rollback()
    assert told(await store.events.events(mark)) == [submitted.job_id]
    await submit(store, job())
    assert len(await store.events.events(mark)) == 2


async def test_all_readers_read_everything_once_and_in_one_order(store: PostgresStore, world: PostgresWorld) -> None:
    """While transactions of all lengths commit and roll back, in no order."""
    random = Random(11)
    mark = await store.events.keep_listening(HOUR)
    committed: list[UUID] = []
    writing = True

    async def write(connection: "Session[asyncpg.Record]") -> None:
        for _ in range(40):
            ids = [new_id() for _ in range(random.randint(1, 3))]
            transaction = connection.transaction()
            await transaction.start()
            for each in ids:
                await connection.execute(TELL, TENANT, each)
                await asyncio.sleep(random.choice([0, 0, 0.002, 0.03]))
            if random.random() < 0.2:
                await transaction.rollback()
            else:
                await transaction.commit()
                committed.extend(ids)

    async def read(reader: PostgresStore) -> list[Event]:
        found: list[Event] = []
        while True:
            is_last = not writing
            page = await reader.events.events(found[-1].mark if found else mark, random.randint(1, 20))
            found += page
            # A page may be empty for a moment: while another reader numbers new events.
            if is_last and not page and len(found) >= len(committed):
                return found
            await asyncio.sleep(random.choice([0, 0.001, 0.01]))

    readers = [world.another(), world.another()]
    connections = [await store.database.connect() for _ in range(6)]
    for each in readers:
        await each.open()
    try:
        reading = [asyncio.create_task(read(each)) for each in readers]
        await asyncio.gather(*(write(each) for each in connections))
        writing = False
        first, second = await asyncio.gather(*reading)
    finally:
        for each in readers:
            await each.close()
        for connection in connections:
            await connection.close()
    assert first == second
    assert sorted(told(first)) == sorted(committed)
    assert [event.mark for event in first] == sorted({event.mark for event in first})


async def test_a_place_that_was_rewound_is_not_given_again(
    store: PostgresStore, world: PostgresWorld, time: Time
) -> None:
    """After a failover that lost the last events, a stream goes on: what is new comes after its mark."""
    mark = await store.events.keep_listening(HOUR)
    await submit(store, job())
    (lost,) = await store.events.events(mark)
    async with store.database.connection() as connection:
        await connection.execute("update duetime.event_places set last = $1", int(mark))
        await connection.execute("delete from duetime.events")
    time.advance(seconds=1)
    submitted = await submit(store, job())
    assert told(await store.events.events(lost.mark)) == [submitted.job_id]
