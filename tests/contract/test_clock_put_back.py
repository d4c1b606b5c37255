"""The database's clock is put back, and jobs are edited: what has run does not run again."""

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
import pytest

from duetime.model.edit import Changes
from duetime.model.firing import Decided, DueJob, Fire, PlannedRun, plan_fire
from duetime.model.job import Options, encode_options
from duetime.model.lists import DeadFilter
from duetime.model.policy import Misfire
from duetime.model.schedule import Cron, Schedule, make_exclusion
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import START, Time

EVERY_MINUTE, EVERY_HOUR = Cron("* * * * *"), Cron("0 * * * *")


async def work_for(store: Store, time: Time, worker: Hand, minutes: int) -> list[datetime]:
    """Let so many minutes pass, and do what is due; returns when that was."""
    done = []
    for _ in range(2 * minutes):
        time.advance(seconds=30)
        await fire(store)
        await store.leases.renew(worker.id, timedelta(minutes=5), [])
        runs = await worker.claim()
        await worker.succeed(*runs)
        done += [run.due_at for run in runs]
    return done


async def edit(store: Store, job_id: object, schedule: Schedule) -> None:
    await store.control.edit_job(TENANT, job_id, Changes(schedule=schedule))  # type: ignore[arg-type]


async def test_two_edits_around_it_repeat_no_occurrence(store: Store, time: Time) -> None:
    """The first edit comes after the last fire, which lies ahead again when the second one comes."""
    worker = await hand(store)
    submitted = await submit(store, job(EVERY_MINUTE))
    done = await work_for(store, time, worker, 6)
    await edit(store, submitted.job_id, EVERY_HOUR)
    time.advance(minutes=-5)
    await edit(store, submitted.job_id, EVERY_MINUTE)
    done += await work_for(store, time, worker, 8)
    assert done == [START + timedelta(minutes=minute) for minute in range(1, 10)]


async def test_a_fire_that_is_taken_back_hides_none_before_it(store: Store, time: Time) -> None:
    """The second schedule has fired ahead and for the first time; what the first one did lies far after the fire that
    would have come before that."""
    worker = await hand(store)
    time.advance(minutes=50)
    submitted = await submit(store, job(EVERY_MINUTE))
    done = await work_for(store, time, worker, 9)
    await edit(store, submitted.job_id, EVERY_HOUR)
    time.advance(seconds=50)
    assert (await fire(store)).fired == 1, "ten seconds ahead"
    time.advance(minutes=-5)
    await edit(store, submitted.job_id, EVERY_MINUTE)
    done += await work_for(store, time, worker, 8)
    assert len(done) > 9
    assert len(set(done)) == len(done)


async def test_a_calendar_that_takes_a_fire_back_repeats_none_before_it(store: Store, time: Time) -> None:
    """A fire at midnight is made ahead, the clock put back, and the new day left out: the old day is not run again."""
    worker = await hand(store)
    await store.calendars.set_calendar(TENANT, "feasts", ())
    time.advance(hours=14, minutes=55)
    await submit(store, job(Cron("* * * * *", exclude=make_exclusion(calendars=["feasts"]))))
    done = await work_for(store, time, worker, 4)
    time.advance(seconds=50)
    assert (await fire(store)).fired == 1, "ten seconds ahead"
    time.advance(minutes=-3)
    await store.calendars.set_calendar(TENANT, "feasts", ((START + timedelta(days=1)).date(),))
    done += await work_for(store, time, worker, 10)
    assert done == [START + timedelta(hours=14, minutes=55 + minute) for minute in range(1, 5)]


@pytest.mark.parametrize("misfire", [Misfire("latest"), Misfire("all")])
async def test_a_pause_around_it_repeats_no_occurrence(store: Store, time: Time, misfire: Misfire) -> None:
    worker = await hand(store)
    submitted = await submit(store, job(EVERY_MINUTE, options=encode_options(Options(misfire=misfire))))
    done = await work_for(store, time, worker, 6)
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(minutes=-5)
    await store.control.resume_job(TENANT, submitted.job_id)
    done += await work_for(store, time, worker, 8)
    assert done == [START + timedelta(minutes=minute) for minute in range(1, 10)]


async def test_a_run_that_died_and_was_made_again_under_its_id_can_die_again(store: Store, time: Time) -> None:
    """Whatever repeats an id: the end of that run is stored, and not refused and repeated for ever."""
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(minutes=1)
    await fire(store)
    first = await worker.claim_one()
    await worker.fail(first)

    def again(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        (planned,) = [plan_fire(each, now) for each in due]
        assert isinstance(planned, Fire)
        return [msgspec.structs.replace(planned, runs=(PlannedRun(first.run_id, first.due_at),))]

    time.advance(seconds=50)
    await fire(store, planned=again)
    second = await worker.claim_one()
    assert second.run_id == first.run_id
    assert not (await worker.fail(second)).refused
    (letter,) = (await store.lists.list_dead_letters(TENANT, DeadFilter())).items
    assert (letter.run_id, letter.job_id, letter.died_at) == (first.run_id, submitted.job_id, time.now)
