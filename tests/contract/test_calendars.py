"""A tenant's calendars: kept, used by jobs, and followed by their cursors when they change."""

from datetime import date, timedelta
from typing import Any

import pytest

from duetime.errors import CalendarInUse, InvalidInput, NotFound
from duetime.model.calendar import Calendar
from duetime.model.edit import Changes
from duetime.model.job import JobState, NewJob
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Every, make_exclusion
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time

DAY = timedelta(days=1)
TODAY = START.date()
TOMORROW = TODAY + DAY
NOON = START + timedelta(hours=3)


def daily(*names: str, instead: Any = "skip", key: str | None = None) -> NewJob:
    """At noon, but not on the days of these calendars."""
    return job(Cron("0 12 * * *", exclude=make_exclusion(calendars=names, instead=instead)), key=key)


async def test_calendars_are_kept_by_tenant_and_name(store: Store) -> None:
    days = (date(2026, 12, 25), date(2026, 12, 26))
    assert await store.calendars.set_calendar(TENANT, "holidays", days) == Calendar("holidays", days)
    await store.calendars.set_calendar(TENANT, "audits", ())
    await store.calendars.set_calendar(STRANGER, "holidays", (TODAY,))
    assert await store.calendars.calendar(TENANT, "holidays") == Calendar("holidays", days)
    assert [calendar.name for calendar in await store.calendars.calendars(TENANT)] == ["audits", "holidays"]
    assert [calendar.dates for calendar in await store.calendars.calendars(STRANGER)] == [(TODAY,)]
    with pytest.raises(NotFound, match="audits"):
        await store.calendars.calendar(STRANGER, "audits")


async def test_a_version_is_raised_when_the_days_change(store: Store) -> None:
    assert (await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))).version == 1
    assert (await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))).version == 1
    assert (await store.calendars.set_calendar(TENANT, "holidays", (TODAY, TOMORROW))).version == 2


async def test_a_job_does_not_run_on_the_days_of_its_calendars(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    await store.calendars.set_calendar(TENANT, "audits", (TOMORROW,))
    submitted = await submit(store, daily("holidays", "audits"))
    assert submitted.next_run == NOON + 2 * DAY
    time.advance(days=2, hours=3)
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [NOON + 2 * DAY]
    assert (await store.calendars.calendar(TENANT, "holidays")).jobs == 1


async def test_what_falls_on_such_a_day_can_run_on_the_next_allowed_one(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY, TOMORROW))
    exclusion = make_exclusion(calendars=["holidays"], instead="next_day")
    submitted = await submit(store, job(Cron("0 12 * * MON", exclude=exclusion)))
    assert START.strftime("%a") == "Mon"
    assert submitted.next_run == NOON + 2 * DAY


async def test_a_calendar_that_is_not_there_is_refused(store: Store) -> None:
    await store.calendars.set_calendar(STRANGER, "holidays", (TODAY,))
    with pytest.raises(InvalidInput, match="the calendar 'holidays' does not exist") as caught:
        await submit(store, job(), daily("holidays"))
    assert caught.value.field == "exclude.calendars"
    assert (await store.reads.counts()).runs == 0
    submitted = await submit(store, job(Cron("0 12 * * *")))
    with pytest.raises(InvalidInput, match="does not exist"):
        await store.control.edit_job(TENANT, submitted.job_id, Changes(schedule=daily("holidays").schedule))


async def test_a_change_moves_the_cursors_of_the_jobs_that_use_it(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    using, moving = await submit(store, daily("holidays")), await submit(store, daily("holidays", instead="next_day"))
    other = await submit(store, job(Cron("0 12 * * *")))
    interval = await submit(store, job(Every(DAY, NOON, exclude=make_exclusion(calendars=["holidays"]))))
    assert {item.next_run for item in (using, moving, other, interval)} == {NOON}
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    next_runs = [(await store.reads.job(TENANT, item.job_id)).next_run for item in (using, moving, other, interval)]
    assert next_runs == [NOON + DAY, NOON + DAY, NOON, NOON + DAY]
    assert (await store.reads.job(TENANT, using.job_id)).version == 1, "a calendar is no edit of the job"
    await store.calendars.set_calendar(TENANT, "holidays", ())
    assert (await store.reads.job(TENANT, using.job_id)).next_run == NOON
    time.advance(hours=3)
    assert (await fire(store)).fired == 4


async def test_a_run_made_ahead_for_a_day_that_is_left_out_now_is_withdrawn(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    submitted = await submit(store, daily("holidays"))
    time.advance(hours=2, minutes=59, seconds=50)
    await fire(store)
    assert (await store.reads.counts()).runs == 1
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.next_run, found.made) == (NOON + DAY, 0)
    assert (await store.reads.counts()).runs == 0
    await store.calendars.set_calendar(TENANT, "holidays", ())
    time.advance(seconds=10)
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [NOON], "once, after all"


async def test_nothing_fires_twice_and_nothing_is_owed_for_the_past(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (TOMORROW,))
    submitted = await submit(store, daily("holidays"))
    worker = await hand(store, timedelta(days=9))
    time.advance(hours=3)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON + DAY
    time.advance(hours=12)
    await store.calendars.set_calendar(TENANT, "holidays", ())
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == NOON + DAY
    assert [run.state for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [RunState.SUCCEEDED]


async def test_what_is_due_already_stays_owed(store: Store, time: Time) -> None:
    """No scanner fired the job at noon, and the day became a holiday only afterwards."""
    await store.calendars.set_calendar(TENANT, "holidays", ())
    submitted = await submit(store, daily("holidays"))
    time.advance(hours=4)
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [NOON]


async def test_a_paused_job_stays_paused(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    submitted = await submit(store, daily("holidays"))
    await store.control.pause_job(TENANT, submitted.job_id)
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    time.advance(hours=4)
    assert (await fire(store)).fired == 0
    resumed = await store.control.resume_job(TENANT, submitted.job_id)
    assert resumed.next_run == NOON + DAY


async def test_a_job_whose_calendars_leave_no_day_is_set_aside(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    only = Cron("0 12 * * *", end_at=NOON, exclude=make_exclusion(calendars=["holidays"]))
    submitted = await submit(store, job(only))
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run) == (JobState.PAUSED, None)
    assert "leave it no day" in (found.problem or "")
    await store.calendars.set_calendar(TENANT, "holidays", ())
    resumed = await store.control.resume_job(TENANT, submitted.job_id)
    assert (resumed.state, resumed.next_run) == (JobState.ACTIVE, NOON)


async def test_a_calendar_in_use_cannot_be_deleted(store: Store) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    submitted = await submit(store, daily("holidays"))
    with pytest.raises(CalendarInUse, match="1 jobs exclude the days of 'holidays'"):
        await store.calendars.delete_calendar(TENANT, "holidays")
    with pytest.raises(NotFound):
        await store.calendars.delete_calendar(STRANGER, "holidays")
    await store.control.cancel_job(TENANT, submitted.job_id)
    await store.calendars.delete_calendar(TENANT, "holidays")
    assert await store.calendars.calendars(TENANT) == []
    with pytest.raises(NotFound):
        await store.calendars.delete_calendar(TENANT, "holidays")


async def test_a_job_that_is_edited_lets_go_of_its_calendars(store: Store) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    submitted = await submit(store, daily("holidays", key="k"))
    await store.control.edit_job(TENANT, submitted.job_id, Changes(args=b"[2]"))
    assert (await store.calendars.calendar(TENANT, "holidays")).jobs == 1
    await submit(store, job(Cron("0 12 * * *"), key="k"))
    await store.calendars.delete_calendar(TENANT, "holidays")
    await store.calendars.set_calendar(TENANT, "audits", (TODAY,))
    edited = await store.control.edit_job(TENANT, submitted.job_id, Changes(schedule=daily("audits").schedule))
    assert edited.next_run == NOON + DAY
    assert (await store.calendars.calendar(TENANT, "audits")).jobs == 1


async def test_the_same_request_under_a_key_stays_the_same_when_its_calendar_changes(store: Store, time: Time) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    first = await submit(store, daily("holidays", key="k"))
    await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    again = await submit(store, daily("holidays", key="k"))
    assert (again.job_id, again.created, again.next_run) == (first.job_id, False, NOON + DAY)
    assert (await store.reads.job(TENANT, first.job_id)).version == 1


async def test_what_was_interrupted_is_taken_up_again(store: Store, other: Store, time: Time) -> None:
    """More users than one step holds; and a node that died in the middle leaves the rest to any other."""
    await store.calendars.set_calendar(TENANT, "holidays", ())
    jobs = [daily("holidays") for _ in range(7)]
    await store.intake.submit(TENANT, jobs)
    recompute = other.recompute.recompute_calendars

    async def die(self: object, limit: int) -> int:
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(store.recompute), "recompute_calendars", die)
        await store.calendars.set_calendar(TENANT, "holidays", (TODAY,))
    assert await recompute(3) == 3
    next_runs = [(await store.reads.job(TENANT, item.id)).next_run for item in jobs]
    assert next_runs.count(NOON + DAY) == 3
    assert [await other.recompute.recompute_calendars(3) for _ in range(3)] == [3, 1, 0]
    assert {(await store.reads.job(TENANT, item.id)).next_run for item in jobs} == {NOON + DAY}
