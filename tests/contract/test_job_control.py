"""Pausing, resuming, triggering and backfilling: the rhythm stays what it was."""

from datetime import date, timedelta

import pytest

from duetime.errors import Conflict, NotFound
from duetime.model.edit import Changes
from duetime.model.firing import Backfill
from duetime.model.job import JobState, Options, encode_options
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Once, make_exclusion
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time

EVERY_MINUTE = Cron("* * * * *")
MINUTE = timedelta(minutes=1)


async def test_a_paused_job_takes_back_what_was_fired_ahead_and_owes_it_again(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(seconds=50)
    await fire(store)
    paused = await store.control.pause_job(TENANT, submitted.job_id)
    assert (paused.state, paused.next_run) == (JobState.PAUSED, START + MINUTE)
    assert (await store.reads.counts()).runs == 0
    time.advance(seconds=5)
    assert (await fire(store)).fired == 0
    resumed = await store.control.resume_job(TENANT, submitted.job_id)
    assert (resumed.state, resumed.next_run) == (JobState.ACTIVE, START + MINUTE)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.due_at, run.state) == (START + MINUTE, RunState.PENDING)


@pytest.mark.parametrize("change", ["calendar", "zones", "schedule"])
async def test_what_a_pause_took_back_is_owed_whatever_changes_meanwhile(store: Store, time: Time, change: str) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", (date(2026, 12, 25),))
    rhythm = Cron("* * * * *", "Europe/Berlin", exclude=make_exclusion(calendars=("holidays",)))
    submitted = await submit(store, job(rhythm))
    time.advance(seconds=50)
    await fire(store)
    await store.control.pause_job(TENANT, submitted.job_id)
    if change == "calendar":
        await store.calendars.set_calendar(TENANT, "holidays", (date(2026, 12, 25), date(2027, 1, 1)))
    elif change == "zones":
        await store.recompute.recompute_zones("another", 10)
    else:
        await store.control.edit_job(TENANT, submitted.job_id, Changes(schedule=Cron("* 9 * * *")))
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == START + MINUTE
    time.advance(seconds=20)
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.due_at, run.state) == (START + MINUTE, RunState.PENDING)


async def test_what_was_fired_before_a_pause_does_not_fire_again_when_the_clock_is_put_back(
    store: Store, time: Time
) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    submitted = await submit(store, job(Cron("* * * * *", exclude=make_exclusion(calendars=("holidays",)))))
    time.advance(minutes=1)
    await fire(store)
    await (await hand(store)).claim_one()
    time.advance(seconds=50)
    await fire(store)
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(minutes=-1)
    await store.calendars.set_calendar(TENANT, "holidays", (date(2026, 12, 25),))
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == START + 2 * MINUTE


async def test_a_claimed_run_is_not_taken_back_by_a_pause(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    worker = await hand(store, timedelta(hours=1))
    time.advance(minutes=1)
    await fire(store)
    claimed = await worker.claim_one()
    await store.control.pause_job(TENANT, submitted.job_id)
    assert not (await worker.succeed(claimed)).refused
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [START + MINUTE]


@pytest.mark.parametrize(("misfire", "runs"), [(Misfire("latest"), 1), (Misfire("skip", after=5), 0)])
async def test_resuming_applies_the_misfire_policy(store: Store, time: Time, misfire: Misfire, runs: int) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, options=encode_options(Options(misfire=misfire))))
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(minutes=10, seconds=30)
    assert (await fire(store)).fired == 0
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    found = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert len([run for run in found if run.state is RunState.PENDING]) == runs
    assert len(found) == 10


async def test_pausing_and_resuming_twice_changes_nothing_more(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    first = await store.control.pause_job(TENANT, submitted.job_id)
    assert await store.control.pause_job(TENANT, submitted.job_id) == first
    active = await store.control.resume_job(TENANT, submitted.job_id)
    assert await store.control.resume_job(TENANT, submitted.job_id) == active


async def test_a_delayed_job_can_be_paused(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(hours=1))))
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(hours=2)
    assert (await fire(store)).fired == 0
    await store.control.resume_job(TENANT, submitted.job_id)
    assert (await fire(store)).fired == 1


async def test_a_job_that_is_due_or_over_cannot_be_steered(store: Store, time: Time) -> None:
    due = await submit(store, job())
    with pytest.raises(Conflict, match="due"):
        await store.control.pause_job(TENANT, due.job_id)
    over = await submit(store, job(EVERY_MINUTE))
    await store.control.cancel_job(TENANT, over.job_id)
    with pytest.raises(Conflict, match="ended"):
        await store.control.trigger_job(TENANT, over.job_id, b"1")


async def test_a_job_that_ran_once_has_ended(store: Store, time: Time) -> None:
    once = await submit(store, job())
    worker = await hand(store, timedelta(hours=1))
    await worker.succeed(await worker.claim_one())
    for steer in (store.control.pause_job, store.control.resume_job, lambda *of: store.control.trigger_job(*of, b"1")):
        with pytest.raises(Conflict, match="has ended") as caught:
            await steer(TENANT, once.job_id)
        assert caught.value.remedy == "retry its run, or submit it again"
        with pytest.raises(NotFound):
            await steer(STRANGER, once.job_id)
    await store.replay.delete_job(TENANT, once.job_id)
    with pytest.raises(NotFound):
        await store.control.trigger_job(TENANT, once.job_id, b"1")


async def test_another_tenants_job_is_not_there(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    for steer in (store.control.pause_job, store.control.resume_job):
        with pytest.raises(NotFound):
            await steer(STRANGER, submitted.job_id)
    with pytest.raises(NotFound):
        await store.control.trigger_job(STRANGER, submitted.job_id, b"1")


async def test_a_trigger_makes_an_extra_run_and_leaves_the_rhythm(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, args=b"[7]"))
    time.advance(seconds=20)
    extra = await store.control.trigger_job(TENANT, submitted.job_id, b"a")
    assert (extra.due_at, extra.state, extra.args) == (START + timedelta(seconds=20), RunState.PENDING, b"[7]")
    again = await store.control.trigger_job(TENANT, submitted.job_id, b"b")
    assert again.id != extra.id
    assert (await store.reads.job(TENANT, submitted.job_id)).made == 0
    time.advance(seconds=40)
    await fire(store)
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id)) == 3


async def test_a_trigger_at_the_moment_of_a_fire_is_a_run_of_its_own(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(minutes=1)
    await fire(store)
    await store.control.trigger_job(TENANT, submitted.job_id, b"a")
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id)) == 2


async def test_a_trigger_while_a_fire_is_pending_leaves_that_fire_alone(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(seconds=50)
    await fire(store)
    (ahead,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    extra = await store.control.trigger_job(TENANT, submitted.job_id, b"a")
    worker = await hand(store)
    assert [run.run_id for run in await worker.claim()] == [extra.id]
    time.advance(seconds=10)
    assert [run.run_id for run in await worker.claim()] == [ahead.id]
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == START + 2 * MINUTE


async def test_a_backfill_makes_the_runs_of_a_past_range_at_its_rate(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    fires = [START - number * MINUTE for number in (30, 20, 10)]
    assert await store.control.backfill_job(TENANT, submitted.job_id, Backfill(fires, 2.0), b"x") == 3
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert sorted(run.due_at for run in runs) == fires
    assert sorted(run.ready_at for run in runs if run.ready_at) == [START + timedelta(seconds=n / 2) for n in range(3)]
    worker = await hand(store)
    assert len(await worker.claim()) == 1
    time.advance(seconds=1)
    assert len(await worker.claim()) == 2


async def test_a_backfill_leaves_what_lies_ahead_to_the_rhythm(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    fires = [START + number * MINUTE for number in (-1, 0, 1, 2)]
    assert await store.control.backfill_job(TENANT, submitted.job_id, Backfill(fires, 1000.0), b"x") == 2
    assert {run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)} == {START - MINUTE, START}
    assert await store.control.backfill_job(TENANT, submitted.job_id, Backfill(fires[2:], 1000.0), b"y") == 0
    for _ in range(2):
        time.advance(minutes=1)
        await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert sorted(run.due_at for run in runs) == fires


async def test_a_pause_takes_back_no_run_that_somebody_asked_for(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    worker = await hand(store, timedelta(hours=1))
    time.advance(minutes=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await store.control.trigger_job(TENANT, submitted.job_id, b"a")
    await store.control.backfill_job(TENANT, submitted.job_id, Backfill([START - MINUTE], 10.0), b"b")
    await store.control.pause_job(TENANT, submitted.job_id)
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert sorted(run.state for run in runs) == [RunState.PENDING, RunState.PENDING, RunState.SUCCEEDED]


async def test_an_edit_takes_back_no_run_that_somebody_asked_for(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, key="k"))
    await store.control.trigger_job(TENANT, submitted.job_id, b"a")
    time.advance(seconds=50)
    await fire(store)
    await submit(store, job(Cron("*/2 * * * *"), key="k", args=b"[2]"))
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.due_at, run.args) == (START, b"{}")
