"""Opening, closing, the schema, and hints."""

import asyncio
import threading
from datetime import timedelta

import pytest

from duetime.errors import SchemaMismatch, StoreUnavailable
from duetime.store.postgres.schema import VERSION
from duetime.store.protocol.store import Hint, Store
from tests.contract.hands import LEASE, Hand, hand, job, submit
from tests.contract.worlds import Time, World

# Both stores have the same versions.
MADE = [VERSION]


async def test_a_store_that_was_never_opened_closes_and_answers_nothing(world: World) -> None:
    await world.store.close()
    await world.store.close()
    with pytest.raises(StoreUnavailable, match="not open"):
        await world.store.reads.counts()


async def test_what_is_stored_is_there_after_closing_and_opening_again(store: Store) -> None:
    submitted = await submit(store, job())
    await store.close()
    await store.close()
    await store.open()
    assert (await store.reads.job(1, submitted.job_id)).id == submitted.job_id


async def test_migrating_again_applies_nothing(store: Store) -> None:
    assert await store.migrate() == []
    assert await store.check_schema() >= 1


async def test_two_migrations_at_once_are_safe(store: Store, other: Store) -> None:
    first, second, third = await asyncio.gather(store.migrate(), other.migrate(), store.migrate())
    assert first + second + third == []


async def test_the_clock_is_the_stores_own(store: Store, time: Time) -> None:
    assert await store.now() == time.now
    time.advance(seconds=90)
    assert await store.now() == time.now


async def test_a_listener_hears_that_runs_are_ready(store: Store) -> None:
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    stop = store.listen(heard.put_nowait)
    await submit(store, job())
    async with asyncio.timeout(10):
        assert await heard.get() is Hint.READY
    stop()


async def test_a_listener_hears_of_a_cancellation(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    heard: asyncio.Queue[Hint] = asyncio.Queue()
    stop = store.listen(heard.put_nowait)
    await store.control.cancel_run(1, run.run_id)
    async with asyncio.timeout(10):
        while await heard.get() is not Hint.CANCEL:
            pass
    stop()
    stop()


async def test_a_listener_hears_on_the_event_loop_where_it_listens(store: Store) -> None:
    here = threading.get_ident()
    heard: asyncio.Queue[int] = asyncio.Queue()
    stop = store.listen(lambda _: heard.put_nowait(threading.get_ident()))
    await submit(store, job())
    async with asyncio.timeout(10):
        assert await heard.get() == here
    stop()


async def test_a_companion_serves_another_event_loop(store: Store, time: Time) -> None:
    worker = await hand(store)

    async def heartbeat() -> None:
        companion = store.companion()
        await companion.open()
        for _ in range(3):
            renewal = await companion.leases.renew(worker.id, LEASE, [])
            assert renewal.lease_until == time.now + LEASE
        await companion.close()
        await companion.close()

    await asyncio.to_thread(asyncio.run, heartbeat())
    # Closing the companion leaves the store open.
    assert [found.id for found in await store.leases.workers()] == [worker.id]


async def test_an_empty_store_has_nothing(store: Store) -> None:
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs, counts.history, counts.dead_letters) == (0, 0, 0, 0)
    assert await store.leases.workers() == []
    assert await Hand(store).claim() == []
    assert (await store.claims.look([], 5)).sights == ()
    assert await store.intake.submit(1, []) == []
    assert await store.pruning.prune(timedelta(days=1), timedelta(days=1)) == 0


async def test_a_schema_that_is_missing_is_named_with_the_command_to_run(empty_store: Store) -> None:
    with pytest.raises(SchemaMismatch, match="duetime migrate"):
        await empty_store.check_schema()
    with pytest.raises(SchemaMismatch, match="duetime migrate"):
        await submit(empty_store, job())
    assert await empty_store.migrate() == MADE
    assert await empty_store.check_schema() == VERSION
    assert await empty_store.migrate() == []


async def test_two_first_migrations_at_once_apply_each_version_once(empty_store: Store, empty_twin: Store) -> None:
    first, second = await asyncio.gather(empty_store.migrate(), empty_twin.migrate())
    assert sorted(first + second) == MADE
    assert await empty_store.check_schema() == await empty_twin.check_schema() == VERSION
