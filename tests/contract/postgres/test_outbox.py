"""A notification that another node stores at the same moment: it waits for the outcome, and nothing breaks."""

from datetime import timedelta

from duetime.engine.notifier import Notifier, OpenBreakers
from duetime.engine.outbox import Outbox
from duetime.model.breaker import BreakerPolicy, Tally
from duetime.model.notification import QUEUE, Message, Subscription, Topic, Webhook
from duetime.store.postgres import PostgresStore
from duetime.store.postgres.transaction import PostgresTransaction
from duetime.store.rules.caller_keys import keys_of
from duetime.store.shared.answers import try_lock_keys
from tests.contract.hands import TENANT, hand, job, submit
from tests.contract.worlds import START

HOOK = Subscription("ops", Webhook("https://example.com/hook"), (Topic.RUN_SUCCEEDED, Topic.BREAKER_OPENED))
TARGET = "duetime.http/away.example.com"


async def letters_in(store: PostgresStore) -> int:
    return (await store.queues.queue(TENANT, QUEUE)).depth.medium


async def test_about_a_run(store: PostgresStore) -> None:
    letters = Outbox(store)
    await store.notifications.put_subscription(TENANT, HOOK)
    notifier = Notifier(store, letters)
    await notifier.tick()
    await submit(store, job())
    worker = await hand(store)
    run = await worker.claim_one()
    await worker.succeed(run)
    message = Message(Topic.RUN_SUCCEEDED, START, "", {})
    same = letters.write(TENANT, HOOK, message, f"{run.run_id.hex}/1")
    async with store.database.transaction() as connection:
        await try_lock_keys(PostgresTransaction(connection), TENANT, keys_of([same]))
        await notifier.tick()
    assert await letters_in(store) == 0
    await notifier.tick()
    assert await letters_in(store) == 1, "what the other one did not store is not left out"


async def test_about_a_breaker(store: PostgresStore) -> None:
    letters = Outbox(store)
    await store.notifications.put_subscription(TENANT, HOOK)
    await store.breakers.report_attempts(
        [Tally(TENANT, TARGET, tried=30, failed=30)], BreakerPolicy(pause=timedelta(minutes=1))
    )
    (breaker,) = await store.breakers.breakers(TENANT)
    message = Message(Topic.BREAKER_OPENED, breaker.since, "", {})
    same = letters.write(TENANT, HOOK, message, f"{TARGET}/{breaker.since.isoformat()}")
    telling = OpenBreakers(store, letters)
    async with store.database.transaction() as connection:
        await try_lock_keys(PostgresTransaction(connection), TENANT, keys_of([same]))
        await telling.tick()
    assert await letters_in(store) == 0
    await telling.tick()
    await telling.tick()
    assert await letters_in(store) == 1
