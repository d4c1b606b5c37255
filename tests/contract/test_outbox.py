"""Notifications that cannot be stored block neither the loop that writes them nor other notifications."""

import logging

import msgspec
import pytest

from duetime.engine.notifier import Notifier
from duetime.engine.outbox import Outbox
from duetime.errors import SchemaMismatch
from duetime.ids import new_id
from duetime.model.notification import QUEUE, Message, Subscription, Topic, Webhook
from duetime.store.protocol.store import Store
from duetime.store.sqlite import SqliteStore
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import START, PostgresWorld, World, execute

HOOK = Subscription("ops", Webhook("https://example.com/hook"), (Topic.RUN_SUCCEEDED,))
MESSAGE = Message(Topic.RUN_SUCCEEDED, START, "it succeeded", {})


def test_no_caller_can_take_the_key_of_a_letter(store: Store) -> None:
    key = Outbox(store).write(TENANT, HOOK, MESSAGE, "x").idempotency_key
    assert key is not None and not key.isprintable(), "the keys of callers are printable"


async def test_one_that_cannot_be_stored_is_left_out(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    letters = Outbox(store)
    jobs = [letters.write(TENANT, HOOK, MESSAGE, about) for about in ("a", "b", "c")]
    await submit(store, msgspec.structs.replace(jobs[1], id=new_id(), fingerprint=b"something else"))
    with caplog.at_level(logging.ERROR, "duetime.notifier"):
        assert await letters.send(TENANT, jobs)
    assert (await store.queues.queue(TENANT, QUEUE)).depth.medium == 3, "the one that is in the way, and two"
    assert "skipping it" in caplog.text


async def test_the_notifier_passes_it_by(store: Store) -> None:
    """Else every node would stumble over it, one after the other, for ever."""
    letters = Outbox(store)
    await store.notifications.put_subscription(TENANT, HOOK)
    notifier = Notifier(store, letters)
    await notifier.tick()
    await submit(store, job(), job())
    worker = await hand(store)
    runs = await worker.claim()
    letter = letters.write(TENANT, HOOK, MESSAGE, f"{runs[0].run_id.hex}/1")
    await submit(store, msgspec.structs.replace(letter, fingerprint=b"something else"))
    await worker.succeed(*runs)
    for _ in range(3):
        await notifier.tick()
    assert (await store.queues.queue(TENANT, QUEUE)).depth.medium == 2, (
        "the one that is in the way, and the second run's"
    )


async def test_a_database_that_says_no_to_everything_is_asked_again(world: World, store: Store) -> None:
    """It says nothing about the letter, which is not passed by."""
    await store.notifications.put_subscription(TENANT, HOOK)
    notifier = Notifier(store, Outbox(store))
    await notifier.tick()
    await submit(store, job())
    worker = await hand(store)
    await worker.succeed(await worker.claim_one())
    await rename(world, "keys", "keys_away")
    try:
        with pytest.raises(SchemaMismatch):
            await notifier.tick()
    finally:
        await rename(world, "keys_away", "keys")
    await notifier.tick()
    assert (await store.queues.queue(TENANT, QUEUE)).depth.medium == 1


async def rename(world: World, table: str, name: str) -> None:
    if isinstance(world, PostgresWorld):
        execute(world.dsn, f"alter table duetime.{table} rename to {name}")
    else:
        assert isinstance(world.store, SqliteStore)
        statement = f"alter table {table} rename to {name}"
        await world.store.database.run(lambda connection, _: connection.raw.execute(statement))
