"""A run is repeated once, however often that is asked for; and what people ask for with a key happens once."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from duetime.errors import Conflict, KeyReused
from duetime.model.attempt import Claimed
from duetime.model.firing import Backfill
from duetime.model.idempotency import KeyedRequest, keyed_request
from duetime.model.lists import DeadFilter, ReplayPace
from duetime.model.run import RunState
from duetime.model.schedule import Every
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, Hand, hand, job, submit
from tests.contract.worlds import Time
from tests.support.databases import FOR_EVER

DAY = timedelta(days=1)
ALL = DeadFilter()


async def dead(store: Store) -> tuple[Hand, Claimed]:
    worker = await hand(store, DAY * 100)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.fail(run)
    return worker, run


async def cancelled(store: Store) -> tuple[Hand, Claimed]:
    """Over, and no dead letter."""
    worker = await hand(store, DAY * 100)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.retry(run, 60)
    await store.control.cancel_run(TENANT, run.run_id)
    return worker, run


@pytest.mark.parametrize("ended", [dead, cancelled], ids=lambda ended: ended.__name__)
async def test_a_run_that_is_retried_twice_is_repeated_once(
    store: Store, time: Time, ended: Callable[[Store], Awaitable[tuple[Hand, Claimed]]]
) -> None:
    worker, old = await ended(store)
    first = await store.replay.retry_run(TENANT, old.run_id, b"one")
    time.advance(seconds=5)
    again = await store.replay.retry_run(TENANT, old.run_id, b"two")
    assert first.id == again.id != old.run_id
    claimed = await worker.claim_one()
    assert claimed.run_id == first.id
    await worker.succeed(claimed)
    assert (await store.replay.retry_run(TENANT, old.run_id, b"three")).state is RunState.SUCCEEDED, (
        "the same, as it stands"
    )
    assert await worker.claim() == []


async def test_one_that_fails_again_is_repeated_in_its_turn(store: Store) -> None:
    worker, old = await dead(store)
    await store.replay.retry_run(TENANT, old.run_id, b"one")
    second = await worker.claim_one()
    await worker.fail(second)
    third = await store.replay.retry_run(TENANT, second.run_id, b"two")
    assert third.replays is not None
    assert (await store.replay.retry_run(TENANT, old.run_id, b"three")).id == second.run_id
    assert len(await worker.claim()) == 1


async def test_many_at_once_make_one(store: Store, other: Store) -> None:
    for ended in (dead, cancelled):
        worker, old = await ended(store)
        asked = [(store, other)[n % 2].replay.retry_run(TENANT, old.run_id, bytes([n])) for n in range(10)]
        assert len({run.id for run in await asyncio.gather(*asked)}) == 1
        assert len(await worker.claim()) == 1


async def test_a_dead_letter_that_was_replayed_is_not_retried(store: Store) -> None:
    worker, old = await dead(store)
    [(_, new)] = (await store.replay.replay_dead_letters(TENANT, ALL, ReplayPace(), b"one")).runs
    assert (await store.replay.retry_run(TENANT, old.run_id, b"two")).id == new
    assert (await store.replay.replay_dead_letters(TENANT, ALL, ReplayPace(), b"three")).runs == ()
    assert len(await worker.claim()) == 1


async def test_it_is_remembered_for_as_long_as_the_run_can_be_found(store: Store, time: Time) -> None:
    worker, old = await dead(store)
    first = await store.replay.retry_run(TENANT, old.run_id, b"one")
    await worker.succeed(await worker.claim_one())
    time.advance(days=3)
    await store.pruning.prune(FOR_EVER, FOR_EVER, idempotency_retention=timedelta(hours=1))
    assert (await store.replay.retry_run(TENANT, old.run_id, b"two")).id == first.id


# With a key.

START = datetime(2026, 3, 1, tzinfo=UTC)


class Asking:
    """What may be asked for with a key: each answers with the ids of the runs that there are then, and what it said."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.job_id = UUID(int=0)
        self.run_id = UUID(int=0)

    async def prepare(self) -> Hand:
        worker, old = await dead(self.store)
        self.run_id = old.run_id
        self.job_id = (await submit(self.store, job(Every(timedelta(hours=1), START)))).job_id
        return worker

    async def trigger(self, request: KeyedRequest | None, tenant_id: int = TENANT) -> object:
        return (await self.store.control.trigger_job(tenant_id, self.job_id, b"n", request)).id

    async def backfill(self, request: KeyedRequest | None, tenant_id: int = TENANT) -> object:
        fires = [START + timedelta(hours=hour) for hour in range(3)]
        return await self.store.control.backfill_job(tenant_id, self.job_id, Backfill(fires, 1000.0), b"n", request)

    async def retry(self, request: KeyedRequest | None, tenant_id: int = TENANT) -> object:
        return (await self.store.replay.retry_run(tenant_id, self.run_id, b"n", request)).id

    async def replay(self, request: KeyedRequest | None, tenant_id: int = TENANT) -> object:
        return await self.store.replay.replay_dead_letters(tenant_id, ALL, ReplayPace(), b"n", request=request)


OPERATIONS = ("trigger", "backfill", "retry", "replay")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_the_same_request_again_gets_the_first_answer(store: Store, time: Time, operation: str) -> None:
    asking = Asking(store)
    worker = await asking.prepare()
    ask = getattr(asking, operation)
    first, again = keyed_request("k", operation, 1), keyed_request("k", operation, 1)
    answer = await ask(first)
    time.advance(seconds=10)
    made = await worker.claim()
    await worker.fail(made[0])  # a dead letter more, so that a replay would find one
    assert await ask(again) == answer
    assert first is not None and again is not None
    assert (first.replayed, again.replayed) == (False, True)
    assert len(made) == (3 if operation == "backfill" else 1)
    assert await worker.claim() == []


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_another_request_under_the_key_is_refused(store: Store, operation: str) -> None:
    asking = Asking(store)
    worker = await asking.prepare()
    await getattr(asking, operation)(keyed_request("k", operation, 1))
    made = len(await worker.claim())
    for other in OPERATIONS:
        with pytest.raises(KeyReused):
            await getattr(asking, other)(keyed_request("k", other, 2))
    with pytest.raises(KeyReused):
        await submit(store, job(idempotency_key="k"))
    assert made
    assert await worker.claim() == []


async def test_the_key_of_a_submission_is_taken_too(store: Store) -> None:
    asking = Asking(store)
    await asking.prepare()
    await submit(store, job(idempotency_key="k"))
    for operation in OPERATIONS:
        with pytest.raises(KeyReused):
            await getattr(asking, operation)(keyed_request("k", operation))


async def test_a_key_belongs_to_its_tenant(store: Store) -> None:
    asking = Asking(store)
    await asking.prepare()
    await asking.trigger(keyed_request("k", "trigger"))
    answer = await store.intake.submit(STRANGER, [job(tenant_id=STRANGER, idempotency_key="k")])
    assert answer[0].created


async def test_what_was_refused_leaves_no_key(store: Store) -> None:
    asking = Asking(store)
    await asking.prepare()
    await store.control.cancel_job(TENANT, asking.job_id)
    with pytest.raises(Conflict):
        await asking.trigger(keyed_request("k", "trigger"))
    assert (await submit(store, job(idempotency_key="k"))).created


async def test_keys_do_not_live_as_long_as_their_job(store: Store, time: Time) -> None:
    """Triggered every minute, a job that never ends would keep them all."""
    asking = Asking(store)
    await asking.prepare()
    first = await asking.trigger(keyed_request("k", "trigger"))
    time.advance(days=2)
    await store.pruning.prune(FOR_EVER, FOR_EVER, idempotency_retention=DAY)
    assert await asking.trigger(keyed_request("k", "trigger")) != first


@pytest.mark.parametrize("operation", ("trigger", "backfill"))
async def test_many_with_one_key_at_once_happen_once(store: Store, other: Store, operation: str) -> None:
    one, two = Asking(store), Asking(other)
    worker = await one.prepare()
    two.job_id = one.job_id

    async def ask(asking: Asking) -> object:
        try:
            return await getattr(asking, operation)(keyed_request("k", operation))
        except Conflict:
            return None  # in flight

    answers = await asyncio.gather(*(ask((one, two)[n % 2]) for n in range(10)))
    assert len({answer for answer in answers if answer is not None}) == 1
    assert len(await worker.claim()) <= 3
