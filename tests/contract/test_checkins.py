"""Check-ins in the store: each incident is opened once and closed once, whatever happens at the same time."""

from datetime import timedelta
from typing import Any

import pytest

from duetime.engine.alarm import SERVED, CheckInAlarm
from duetime.engine.outbox import Outbox
from duetime.errors import NotFound, StoreUnavailable
from duetime.model.checkin import CheckIn, StoredCheckIn
from duetime.model.lists import JobFilter
from duetime.model.notification import QUEUE, Subscription, Webhook
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT
from tests.contract.worlds import Time
from tests.support.lying import Lie

HASH = b"0" * 32
BACKUP = CheckIn("backup", every=60, grace=30)


async def made(store: Store, **given: Any) -> CheckInAlarm:
    await store.notifications.put_subscription(
        TENANT, Subscription("ops", Webhook("https://ops.example.com/"), ("*",), queues=("mail",))
    )
    assert await store.checkins.put_checkin(TENANT, BACKUP, HASH, paused=False)
    await store.clocks.keep_served(SERVED)
    return CheckInAlarm(store, Outbox(store), **given)


async def goes_on(alarm: CheckInAlarm, store: Store, time: Time, seconds: float) -> StoredCheckIn:
    for _ in range(round(seconds / 5)):
        time.advance(seconds=5)
        await store.clocks.keep_served(SERVED)
        await alarm.tick()
    return await store.checkins.checkin(TENANT, "backup")


async def told(store: Store) -> list[str]:
    items = (await store.lists.list_jobs(TENANT, JobFilter(queue=QUEUE))).items
    return sorted(str(item.options.name) for item in items)


async def test_they_are_set_listed_rotated_and_deleted(store: Store, time: Time) -> None:
    assert await store.checkins.put_checkin(TENANT, BACKUP, HASH, paused=False)
    assert await store.checkins.ping(HASH, "fail", 3, "disk full")
    changed = CheckIn("backup", cron="0 2 * * *", tz="Europe/Berlin")
    assert not await store.checkins.put_checkin(TENANT, changed, b"1" * 32, paused=False), "it keeps its token"
    (found,) = await store.checkins.checkins(TENANT)
    assert (found.check, found.ping, found.exit_code, found.note, found.pings) == (changed, "fail", 3, "disk full", 1)
    assert await store.checkins.has_checkin(HASH) and not await store.checkins.has_checkin(b"1" * 32)
    await store.checkins.rotate_checkin(TENANT, "backup", b"2" * 32)
    assert not await store.checkins.ping(HASH, "success", None, None)
    assert await store.checkins.checkins(STRANGER) == []
    for call in (store.checkins.delete_checkin, store.checkins.checkin):
        with pytest.raises(NotFound):
            await call(STRANGER, "backup")
    await store.checkins.delete_checkin(TENANT, "backup")
    assert await store.checkins.checkins(TENANT) == []


async def test_late_and_back(store: Store, time: Time) -> None:
    alarm = await made(store)
    assert not (await goes_on(alarm, store, time, 200)).open, "nothing is expected before the first ping"
    await store.checkins.ping(HASH, "success", None, None)
    assert not (await goes_on(alarm, store, time, 85)).open
    assert (await goes_on(alarm, store, time, 10)).open
    await goes_on(alarm, store, time, 300)
    assert await told(store) == ["checkin.late to ops"]
    await store.checkins.ping(HASH, "start", None, None)
    assert (await goes_on(alarm, store, time, 5)).open, "a start is no success"
    await store.checkins.ping(HASH, "success", None, None)
    assert not (await goes_on(alarm, store, time, 5)).open
    assert await told(store) == ["checkin.late to ops"] * 2


async def test_a_check_that_cannot_be_read_does_not_keep_the_others_from_being_judged(store: Store, time: Time) -> None:
    alarm = await made(store)
    await store.checkins.put_checkin(TENANT, CheckIn("before", every=60), b"1" * 32, paused=False)
    await store.checkins.put_checkin(TENANT, CheckIn("later", every=60), b"2" * 32, paused=False)
    for token in (HASH, b"1" * 32, b"2" * 32):
        await store.checkins.ping(token, "fail", 1, None)
    lie = Lie(store, "keep_checkin", happens=False)
    time.advance(seconds=5)
    with pytest.raises(StoreUnavailable):
        await alarm.tick()
    assert lie.told
    assert sorted(each.open for each in await store.checkins.checkins(TENANT)) == [False, True, True]


async def test_a_ping_while_it_is_judged_is_not_lost(store: Store, time: Time) -> None:
    alarm = await made(store)
    await store.checkins.ping(HASH, "fail", 1, None)
    real = store.checkins.keep_checkin

    async def pinged_before(stored: StoredCheckIn, seen: int) -> bool:
        await store.checkins.ping(HASH, "success", 0, None)
        return await real(stored, seen)

    store.checkins.keep_checkin = pinged_before  # type: ignore[method-assign]
    await alarm.tick()
    store.checkins.keep_checkin = real  # type: ignore[method-assign]
    assert (await store.checkins.checkin(TENANT, "backup")).open
    assert not (await goes_on(alarm, store, time, 5)).open
    assert await told(store) == ["checkin.failed to ops"] * 2


@pytest.mark.parametrize("lost", ["submit", "mark_checkin_notified", "keep_checkin"])
@pytest.mark.parametrize("happens", [True, False])
async def test_each_turn_is_told_once_whatever_fails(store: Store, time: Time, lost: str, happens: bool) -> None:
    alarm = await made(store, held=timedelta(seconds=5))
    for turn, ping in ((1, "fail"), (2, "success")):
        await store.checkins.ping(HASH, ping, None, None)  # type: ignore[arg-type]
        Lie(store, lost, happens=happens)
        with pytest.raises(StoreUnavailable):
            await alarm.tick()
        alarm = CheckInAlarm(store, Outbox(store), held=timedelta(seconds=5))
        await goes_on(alarm, store, time, 20)
        assert await told(store) == ["checkin.failed to ops"] * turn


async def test_while_no_server_is_up_nothing_is_late(store: Store, time: Time) -> None:
    alarm = await made(store)
    await store.checkins.ping(HASH, "success", None, None)
    time.advance(hours=5)
    await alarm.tick()
    assert not (await store.checkins.checkin(TENANT, "backup")).open, "pings could not arrive"
    assert not (await goes_on(alarm, store, time, 80)).open, "the first server is back: a whole period"
    assert (await goes_on(alarm, store, time, 20)).open


async def test_a_clock_that_is_put_back(store: Store, time: Time) -> None:
    alarm = await made(store)
    await store.checkins.ping(HASH, "success", None, None)
    time.advance(hours=-5)
    await store.clocks.shift_back()
    assert not (await goes_on(alarm, store, time, 80)).open
    assert (await goes_on(alarm, store, time, 20)).open


async def test_one_node_at_a_time_judges(store: Store, other: Store, time: Time) -> None:
    await made(store)
    await store.checkins.ping(HASH, "fail", 1, None)
    found = [await each.checkins.take_checkins(timedelta(seconds=30)) for each in (store, other)]
    assert [len(each) for each in found] == [1, 0]
