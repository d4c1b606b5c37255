"""What recurring jobs do with occurrences that were missed, or that meet a run of their own that is not over."""

import asyncio
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from duetime.engine.reaper import judge
from duetime.model.attempt import AttemptState, Completion, Run
from duetime.model.failure import FailureClass
from duetime.model.firing import LOOK_AHEAD, MOST_MISSED, jittered
from duetime.model.job import JobState, NewJob, Options, encode_options
from duetime.model.policy import Misfire, Overlap
from duetime.model.retry import Verdict
from duetime.model.run import Event, RunState
from duetime.model.schedule import Cron, Every
from duetime.store.protocol.store import Store
from tests.contract.hands import SUCCEED, TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import START, Time

EVERY_MINUTE = Cron("* * * * *")
MINUTE = timedelta(minutes=1)


def recurring(**options: Any) -> NewJob:
    return job(EVERY_MINUTE, options=encode_options(Options(**options)))


async def states(store: Store, job_id: UUID) -> dict[datetime, RunState]:
    """The runs of a job by their due time."""
    runs = await store.reads.runs_of_job(TENANT, job_id, 2000)
    assert len({run.due_at for run in runs}) == len(runs)
    return {run.due_at: run.state for run in runs}


async def outage(store: Store, time: Time, misfire: Misfire) -> tuple[dict[datetime, RunState], int, int]:
    """Two hours in which no scanner fires a job that is due every minute."""
    submitted = await submit(store, recurring(misfire=misfire))
    time.advance(hours=2, seconds=30)
    await fire(store)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert found.next_run is not None
    return await states(store, submitted.job_id), found.made, found.missed


async def test_after_an_outage_latest_runs_once_for_the_latest(store: Store, time: Time) -> None:
    found, made, missed = await outage(store, time, Misfire("latest"))
    latest = START + timedelta(hours=2)
    assert [due for due, state in found.items() if state is RunState.PENDING] == [latest]
    assert sorted(due for due, state in found.items() if state is RunState.SKIPPED) == [
        START + number * MINUTE for number in range(1, 120)
    ]
    assert (made, missed) == (1, 119)


async def test_after_an_outage_skip_runs_only_what_is_not_late(store: Store, time: Time) -> None:
    found, made, missed = await outage(store, time, Misfire("skip", after=60))
    assert [due for due, state in found.items() if state is RunState.PENDING] == [START + timedelta(hours=2)]
    assert (made, missed) == (1, 119)


async def test_after_an_outage_skip_runs_nothing_that_is_late(store: Store, time: Time) -> None:
    found, made, missed = await outage(store, time, Misfire("skip", after=10))
    assert set(found.values()) == {RunState.SKIPPED}
    assert (made, missed) == (0, 120)


async def test_after_an_outage_all_runs_as_many_as_its_bounds_allow(store: Store, time: Time) -> None:
    found, made, missed = await outage(store, time, Misfire("all", most=1000))
    assert [state for state in found.values() if state is not RunState.PENDING] == []
    assert (made, missed) == (120, 0)


@pytest.mark.parametrize(("policy", "runs"), [(Misfire("all", most=7), 7), (Misfire("all", most=1000, age=630), 11)])
async def test_catching_up_is_bounded_in_number_and_age(store: Store, time: Time, policy: Misfire, runs: int) -> None:
    found, made, missed = await outage(store, time, policy)
    newest = [START + timedelta(hours=2) - number * MINUTE for number in range(runs)]
    assert sorted(due for due, state in found.items() if state is RunState.PENDING) == sorted(newest)
    assert (made, missed) == (runs, 120 - runs)


async def test_what_is_skipped_says_why(store: Store, time: Time) -> None:
    submitted = await submit(store, recurring(misfire=Misfire("skip", after=10)))
    time.advance(minutes=1, seconds=30)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.state, run.error, run.attempts) == (RunState.SKIPPED, "missed: 30s late", ())


async def under_way(store: Store, time: Time, overlap: Overlap) -> tuple[Hand, UUID]:
    """A job of every minute whose first run takes five."""
    submitted = await submit(store, recurring(overlap=overlap))
    worker = await hand(store, timedelta(hours=1))
    time.advance(minutes=1)
    await fire(store)
    await worker.claim_one()
    return worker, submitted.job_id


async def running_run(store: Store, job_id: UUID) -> Run:
    (found,) = [run for run in await store.reads.runs_of_job(TENANT, job_id) if run.state is RunState.RUNNING]
    return found


async def four_more(store: Store, time: Time) -> None:
    for _ in range(4):
        time.advance(minutes=1)
        await fire(store)
        await store.firing.unblock(100)


async def test_overlap_allow_starts_them_side_by_side(store: Store, time: Time) -> None:
    worker, _ = await under_way(store, time, "allow")
    await four_more(store, time)
    assert len(await worker.claim()) == 4


async def test_overlap_skip_makes_no_run_while_one_is_not_over(store: Store, time: Time) -> None:
    worker, job_id = await under_way(store, time, "skip")
    await four_more(store, time)
    assert await worker.claim() == []
    assert sorted((await states(store, job_id)).values()) == [RunState.RUNNING] + [RunState.SKIPPED] * 4
    found = await store.reads.job(TENANT, job_id)
    assert (found.made, found.missed) == (1, 4)
    await store.completions.complete(worker.id, [_done(await running_run(store, job_id))])
    time.advance(minutes=1)
    await fire(store)
    assert len(await worker.claim()) == 1


async def test_overlap_queue_lets_one_wait(store: Store, time: Time) -> None:
    worker, job_id = await under_way(store, time, "queue")
    await four_more(store, time)
    assert await worker.claim() == []
    found = await states(store, job_id)
    assert sorted(found.values()) == [RunState.BLOCKED, RunState.RUNNING] + [RunState.SKIPPED] * 3
    await store.completions.complete(worker.id, [_done(await running_run(store, job_id))])
    assert await store.firing.unblock(100) == 1
    claimed = await worker.claim_one()
    assert claimed.due_at == START + 2 * MINUTE
    assert await store.firing.unblock(100) == 0


async def test_overlap_queue_starts_one_when_another_is_due_as_the_first_ends(store: Store, time: Time) -> None:
    """The first ends between two ticks of the scanner: the second still waits for it when the third is fired."""
    worker, job_id = await under_way(store, time, "queue")
    time.advance(minutes=1)
    await fire(store)
    await store.firing.unblock(100)
    await store.completions.complete(worker.id, [_done(await running_run(store, job_id))])
    time.advance(minutes=1)
    await fire(store)
    for minute in (2, 3):
        assert await store.firing.unblock(100) == 1
        assert await store.firing.unblock(100) == 0, "of several that wait, the next waits for the first"
        claimed = await worker.claim_one()
        assert claimed.due_at == START + minute * MINUTE
        await worker.succeed(claimed)


async def test_overlap_queue_starts_one_when_many_nodes_look(store: Store, other: Store, time: Time) -> None:
    worker, job_id = await under_way(store, time, "queue")
    time.advance(minutes=1)
    await fire(store)
    await store.completions.complete(worker.id, [_done(await running_run(store, job_id))])
    time.advance(minutes=1)
    await asyncio.gather(fire(store), *((store, other)[turn % 2].firing.unblock(100) for turn in range(8)))
    await asyncio.gather(*((store, other)[turn % 2].firing.unblock(100) for turn in range(8)))
    assert len(await worker.claim()) == 1


async def test_overlap_replace_stops_the_one_under_way(store: Store, time: Time) -> None:
    worker, job_id = await under_way(store, time, "replace")
    (running,) = await store.reads.runs_of_job(TENANT, job_id)
    await four_more(store, time)
    assert await store.leases.cancellations(worker.id) == (running.id,)
    assert await worker.claim() == [], "the next one waits until the one under way has stopped"
    await store.completions.complete(worker.id, [_cancelled(running)])
    await store.firing.unblock(100)
    claimed = await worker.claim_one()
    assert claimed.due_at == START + 5 * MINUTE
    found = await states(store, job_id)
    assert sorted(found.values()) == [RunState.RUNNING] + [RunState.CANCELLED] * 4


@pytest.mark.parametrize("how", ["stopped", "handed back", "lost", "waiting"])
async def test_a_run_that_was_replaced_says_so_however_it_ends(store: Store, time: Time, how: str) -> None:
    submitted = await submit(store, recurring(overlap="replace"))
    worker = await hand(store, timedelta(hours=1) if how != "lost" else timedelta(minutes=3))
    time.advance(minutes=1)
    await fire(store)
    if how != "waiting":
        claimed = await worker.claim_one()
    time.advance(minutes=1)
    await fire(store)
    match how:
        case "stopped":
            (running,) = [
                run for run in await store.reads.runs_of_job(TENANT, submitted.job_id) if run.id == claimed.run_id
            ]
            await store.completions.complete(worker.id, [_cancelled(running)])
        case "handed back":
            await store.completions.hand_back(worker.id, [(claimed.run_id, claimed.fence)])
        case "lost":
            time.advance(minutes=5)
            await store.reaping.reap(100, judge, timedelta(seconds=5))
    ended = [run for run in await store.reads.runs_of_job(TENANT, submitted.job_id) if run.state.is_end]
    assert [run.state for run in ended] == [RunState.CANCELLED]
    assert ended[0].error is not None and ended[0].error.startswith("replaced by a later occurrence")


async def test_a_run_that_was_cancelled_before_it_was_replaced_was_cancelled_on_request(
    store: Store, time: Time
) -> None:
    worker, job_id = await under_way(store, time, "replace")
    running = await running_run(store, job_id)
    await store.control.cancel_run(TENANT, running.id)
    await four_more(store, time)
    await store.completions.complete(worker.id, [_cancelled(running)])
    assert (await store.reads.run(TENANT, running.id)).error == "cancelled on request"


async def test_a_job_that_is_decided_when_due_is_not_fired_ahead(store: Store, time: Time) -> None:
    await submit(store, recurring(overlap="skip"))
    time.advance(seconds=59)
    assert (await fire(store)).fired == 0
    time.advance(seconds=1)
    assert (await fire(store)).fired == 1


async def test_max_runs_ends_the_job(store: Store, time: Time) -> None:
    submitted = await submit(store, recurring(max_runs=3))
    for _ in range(5):
        time.advance(minutes=1)
        await fire(store)
    assert len(await states(store, submitted.job_id)) == 3
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run) == (JobState.ENDED, START + MINUTE)
    assert (await fire(store)).next_in is None


async def test_jitter_moves_a_fire_back_and_keeps_the_rhythm(store: Store, time: Time) -> None:
    submitted = await submit(store, recurring(jitter=30.0))
    time.advance(minutes=1, seconds=-LOOK_AHEAD.total_seconds())
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert run.due_at == run.ready_at == jittered(submitted.job_id, START + MINUTE, 30.0)
    assert START + MINUTE <= run.due_at < START + MINUTE + timedelta(seconds=30)
    time.advance(minutes=1)
    await fire(store)
    later, _ = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert later.due_at == jittered(submitted.job_id, START + 2 * MINUTE, 30.0)


async def test_a_very_long_outage_is_looked_back_at_only_so_far(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(timedelta(seconds=1))))
    time.advance(days=2)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id, 2000)
    assert len(runs) == MOST_MISSED + 1
    assert "like every one from" in (runs[-1].error or "")


def _done(run: Run) -> Completion:
    return Completion(run.id, run.fence, SUCCEED, AttemptState.SUCCEEDED)


def _cancelled(run: Run) -> Completion:
    return Completion(
        run.id,
        run.fence,
        Verdict(Event.CANCEL),
        AttemptState.CANCELLED,
        FailureClass.CANCELLED,
        "cancelled on request",
    )


@pytest.mark.parametrize("late", [timedelta(milliseconds=1), timedelta(hours=2)])
async def test_a_run_that_was_created_and_waits_is_kept_however_late_the_next_one_is(
    store: Store, time: Time, late: timedelta
) -> None:
    submitted = await submit(store, recurring(misfire=Misfire("latest")))
    time.advance(seconds=50)
    await fire(store)
    time.advance(seconds=(timedelta(seconds=70) + late).total_seconds())
    await fire(store)
    assert (await states(store, submitted.job_id))[START + MINUTE] is RunState.PENDING
