"""Events: written while there is a listener, read in order, without gaps."""

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from duetime.ids import new_id
from duetime.model.event import Event, EventKind, EventMark
from duetime.model.lists import DeadFilter, ReplayPace
from duetime.model.notification import Subscription, Topic, Webhook
from duetime.model.schedule import Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time, World

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def told(events: Sequence[Event]) -> list[tuple[EventKind, int, set[UUID]]]:
    return [(event.kind, event.tenant_id, set(event.ids)) for event in events]


async def test_nothing_is_written_while_nobody_listens(store: Store) -> None:
    beginning = EventMark(0)
    worker = await hand(store)
    await submit(store, job())
    await worker.succeed(await worker.claim_one())
    assert await store.events.events(beginning) == []


async def test_the_life_of_a_run_is_told(store: Store, other: Store, time: Time) -> None:
    mark = await store.events.keep_listening(MINUTE)
    worker = await hand(other, HOUR)
    submitted = await submit(other, job())
    assert submitted.run_id is not None
    await worker.retry(await worker.claim_one())
    await worker.fail(await worker.claim_one())
    await other.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), b"n")
    again = await worker.claim_one()
    await worker.succeed(again)
    found = await store.events.events(mark)
    run, new = {submitted.run_id}, {again.run_id}
    assert told(found) == [
        (EventKind.SUBMITTED, TENANT, {submitted.job_id}),
        (EventKind.STARTED, TENANT, run),
        (EventKind.RETRYING, TENANT, run),
        (EventKind.STARTED, TENANT, run),
        (EventKind.FAILED, TENANT, run),
        (EventKind.FIRED, TENANT, new),
        (EventKind.STARTED, TENANT, new),
        (EventKind.SUCCEEDED, TENANT, new),
    ]
    assert {event.at for event in found} == {time.now}


async def test_the_life_of_a_job_is_told(store: Store, time: Time) -> None:
    mark = await store.events.keep_listening(HOUR)
    recurring = {(await submit(store, job(Every(MINUTE)))).job_id}
    (job_id,) = recurring
    time.advance(minutes=1)
    await fire(store)
    await store.control.pause_job(TENANT, job_id)
    await store.control.resume_job(TENANT, job_id)
    await store.control.trigger_job(TENANT, job_id, b"n")
    await store.control.cancel_job(TENANT, job_id)
    await store.replay.delete_job(TENANT, job_id)
    kinds = [event.kind for event in await store.events.events(mark)]
    assert kinds[:5] == [
        EventKind.SUBMITTED,
        EventKind.FIRED,
        EventKind.CHANGED,
        EventKind.CHANGED,
        EventKind.FIRED,
    ]
    assert set(kinds[5:-1]) == {EventKind.CANCELLED, EventKind.CHANGED}
    assert kinds[-1] is EventKind.DELETED


async def test_a_batch_of_a_tenant_is_one_event(store: Store) -> None:
    mark = await store.events.keep_listening(MINUTE)
    mine = [job(), job(), job(Once(delay=HOUR))]
    await submit(store, *mine)
    theirs = await submit(store, job(tenant_id=STRANGER), tenant_id=STRANGER)
    worker = await hand(store)
    claimed = await worker.claim()
    await worker.succeed(*claimed)
    found = told(await store.events.events(mark))
    assert found[:2] == [
        (EventKind.SUBMITTED, TENANT, {item.id for item in mine}),
        (EventKind.SUBMITTED, STRANGER, {theirs.job_id}),
    ]
    assert sorted(found[2:4], key=lambda event: event[1]) == [
        (EventKind.STARTED, TENANT, {run.run_id for run in claimed if run.job_id != theirs.job_id}),
        (EventKind.STARTED, STRANGER, {theirs.run_id}),
    ]
    assert len(found) == 6


async def test_lost_runs_are_told(store: Store, time: Time) -> None:
    mark = await store.events.keep_listening(HOUR)
    submitted = await submit(store, job())
    await (await hand(store)).claim_one()
    time.advance(minutes=5)
    await reap(store)
    assert told(await store.events.events(mark))[-1] == (EventKind.RETRYING, TENANT, {submitted.run_id})


async def test_events_are_read_on_from_a_place(store: Store) -> None:
    mark = await store.events.keep_listening(MINUTE)
    submitted = [(await submit(store, job())).job_id for _ in range(5)]
    first = await store.events.events(mark, 2)
    rest = await store.events.events(first[-1].mark)
    assert [event.ids for event in first + rest] == [(job_id,) for job_id in submitted]
    assert await store.events.events(rest[-1].mark) == []
    assert await store.events.events(await store.events.keep_listening(MINUTE), 1000) == []


async def test_listening_ends_after_a_while(store: Store, time: Time) -> None:
    mark = await store.events.keep_listening(MINUTE)
    await store.events.keep_listening(timedelta(seconds=1))
    time.advance(seconds=59)
    await submit(store, job())
    time.advance(seconds=1)
    await submit(store, job())
    assert len(await store.events.events(mark)) == 1


async def test_events_that_were_written_while_the_clock_was_ahead_hold_up_none(
    store: Store, world: World, time: Time
) -> None:
    mark = await store.events.keep_listening(timedelta(days=1))
    time.advance(hours=1)
    for _ in range(5):
        await submit(store, job())
    assert len(await store.events.events(mark)) == 5
    time.advance(hours=-1)
    await submit(store, job())
    assert len(await store.events.events(mark)) == 6
    time.advance(minutes=15)
    await store.pruning.prune(timedelta(days=30), timedelta(days=90), batch=3)
    assert await world.rows_of("events") == 5


async def test_events_are_pruned_after_minutes(store: Store, time: Time) -> None:
    mark = await store.events.keep_listening(HOUR)
    await submit(store, job())
    assert len(await store.events.events(mark)) == 1
    time.advance(minutes=5)
    await submit(store, job())
    assert len(await store.events.events(mark)) == 2
    time.advance(minutes=6)
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    assert len(await store.events.events(mark)) == 1


async def test_what_notifications_have_not_read_stays_for_a_day(store: Store, time: Time) -> None:
    await store.notifications.put_subscription(
        TENANT, Subscription("ops", Webhook("https://ops.example.com/"), (Topic.RUN_FAILED,))
    )
    mark = await store.notifications.take_notifying(new_id(), MINUTE)
    assert mark is not None
    await submit(store, job())
    await submit(store, job())
    first, second = await store.events.events(mark)
    time.advance(hours=23)
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    assert await store.events.events(mark) == [first, second]
    await store.notifications.notified(first.mark)
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    assert await store.events.events(mark) == [second]
    time.advance(hours=2)
    await store.pruning.prune(timedelta(days=30), timedelta(days=90))
    assert await store.events.events(mark) == []
