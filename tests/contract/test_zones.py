"""Another time zone database: cursors are computed anew, step by step, and no occurrence is lost or fired twice."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.model.job import JobState
from duetime.model.schedule import Cron, Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time, World

OLD, NEW = "2020a 0000", "2026b 1111"
BERLIN = Cron("0 12 * * *", "Europe/Berlin")  # 11:00 in UTC
NOON = START + timedelta(hours=2)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


async def all_of(store: Store, version: str) -> int:
    seen = 0
    while step := await store.recompute.recompute_zones(version, 2):
        seen += step
    return seen


async def test_cursors_are_computed_anew_when_the_database_is_another(world: World, store: Store, time: Time) -> None:
    late, early, right = [await submit(store, job(BERLIN)) for _ in range(3)]
    elsewhere, once = await submit(store, job(Cron("0 12 * * *"))), await submit(store, job(Once(at=NOON + 5 * DAY)))
    assert await all_of(store, OLD) == 4
    await world.misplace(late.job_id, NOON + HOUR)
    await world.misplace(early.job_id, NOON - HOUR)
    await world.misplace(elsewhere.job_id, NOON + 7 * HOUR)
    assert await all_of(store, OLD) == 0, "the same database: nothing to do"
    assert await all_of(store, NEW) == 4
    assert await all_of(store, NEW) == 0
    assert {(await store.reads.job(TENANT, item.job_id)).next_run for item in (late, early, right)} == {NOON}
    assert (await store.reads.job(TENANT, elsewhere.job_id)).next_run == NOON + 7 * HOUR, "it does not go by a zone"
    assert (await store.reads.job(TENANT, once.job_id)).next_run == NOON + 5 * DAY


async def test_a_fire_whose_time_has_passed_unnoticed_is_owed(world: World, store: Store, time: Time) -> None:
    """By the old rules it was due at 12:00 UTC, by the new ones at 11:00; it is half past eleven."""
    submitted = await submit(store, job(BERLIN))
    await store.recompute.recompute_zones(OLD, 10)
    await world.misplace(submitted.job_id, NOON + HOUR, NOON + HOUR - DAY)
    time.advance(hours=2, minutes=30)
    await all_of(store, NEW)
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [NOON]
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON


async def test_a_fire_that_has_run_does_not_run_again(world: World, store: Store, time: Time) -> None:
    """By the old rules it ran at 10:00 UTC, by the new ones it would be due at 11:00 on the same day."""
    submitted = await submit(store, job(BERLIN))
    await store.recompute.recompute_zones(OLD, 10)
    await world.misplace(submitted.job_id, NOON - HOUR)
    time.advance(hours=1)
    worker = await hand(store, timedelta(days=9))
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await world.misplace(submitted.job_id, NOON - HOUR + DAY, NOON - HOUR)
    await all_of(store, NEW)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON + DAY


async def test_what_is_due_already_is_left_to_the_misfire_policy(world: World, store: Store, time: Time) -> None:
    submitted = await submit(store, job(BERLIN))
    await store.recompute.recompute_zones(OLD, 10)
    await world.misplace(submitted.job_id, NOON - HOUR)
    time.advance(hours=1, minutes=1)
    await all_of(store, NEW)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON - HOUR


async def test_a_paused_job_stays_paused(world: World, store: Store, time: Time) -> None:
    submitted = await submit(store, job(BERLIN))
    await store.recompute.recompute_zones(OLD, 10)
    await store.control.pause_job(TENANT, submitted.job_id)
    await world.misplace(submitted.job_id, NOON + HOUR)
    await all_of(store, NEW)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run) == (JobState.PAUSED, NOON)
    time.advance(hours=3)
    assert (await fire(store)).fired == 0


async def test_any_number_of_nodes_share_the_work(world: World, store: Store, other: Store, time: Time) -> None:
    submitted = [await submit(store, job(BERLIN)) for _ in range(5)]
    for item in submitted:
        await world.misplace(item.job_id, NOON + HOUR)
    assert await store.recompute.recompute_zones(NEW, 2) == 2
    assert await other.recompute.recompute_zones(NEW, 2) == 2
    assert await store.recompute.recompute_zones(NEW, 2) == 1
    assert await other.recompute.recompute_zones(NEW, 2) == 0
    assert {(await store.reads.job(TENANT, item.job_id)).next_run for item in submitted} == {NOON}


@pytest.mark.parametrize("line", ["* * * * *", "*/20 * * * *", "0 */3 * * *", "30 2 * * *", "0 9 * * MON-FRI"])
async def test_cursors_that_are_right_stay_where_they_are(store: Store, time: Time, line: str) -> None:
    zones = ("Europe/Berlin", "Australia/Lord_Howe", "Africa/Cairo")
    jobs = [await submit(store, job(Cron(line, zone))) for zone in zones]
    jobs.append(await submit(store, job(Every(timedelta(0), datetime(2026, 1, 31, 9, tzinfo=UTC), 1, 0, zones[0]))))
    for _ in range(3):
        before = [(await store.reads.job(TENANT, item.job_id)).next_run for item in jobs]
        await all_of(store, OLD)
        await all_of(store, NEW)
        assert [(await store.reads.job(TENANT, item.job_id)).next_run for item in jobs] == before
        time.advance(hours=26)
        while (await fire(store)).fired:
            pass
