"""Firing: each occurrence once, at most one future run, and no row that stops the others."""

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from duetime.ids import once_run_id, run_id
from duetime.model.firing import LOOK_AHEAD, Decided, DueJob, Fire, PlannedRun, SetAside, plan_fire
from duetime.model.job import JobState
from duetime.model.run import RunState
from duetime.model.schedule import Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, hand, job, plan, submit
from tests.contract.worlds import Time

MINUTE = timedelta(minutes=1)


async def test_a_one_off_fires_ahead_of_its_time_and_moves_house(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(minutes=10)), args=b"[1]", timeout_ms=7, options=b"{}"))
    time.advance(seconds=584)
    assert (await fire(store)).fired == 0
    time.advance(seconds=1)
    scan = await fire(store)
    assert (scan.fired, scan.seen, scan.set_aside) == (1, 1, ())
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert run.due_at == run.ready_at == submitted.next_run
    assert run.id == once_run_id(submitted.job_id, run.due_at)
    assert (run.args, run.state) == (b"[1]", RunState.PENDING)
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (0, 1)
    assert (await fire(store)).seen == 0


async def test_a_fired_job_is_still_the_same_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(minutes=10)), timeout_ms=7, options=b'{"name":"n"}'))
    before = await store.reads.job(TENANT, submitted.job_id)
    time.advance(minutes=10)
    await fire(store)
    after = await store.reads.job(TENANT, submitted.job_id)
    assert (after.id, after.task, after.queue, after.tier) == (before.id, before.task, before.queue, before.tier)
    assert (after.args, after.options, after.timeout_ms) == (before.args, before.options, before.timeout_ms)
    assert (after.state, after.next_run) == (JobState.ACTIVE, submitted.next_run)


async def test_a_run_that_is_fired_late_is_ready_when_it_is_fired(store: Store, time: Time) -> None:
    """`due_at` tells when it should have been, `ready_at` never lies in the past."""
    submitted = await submit(store, job(Once(delay=timedelta(minutes=10))))
    time.advance(minutes=30)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.due_at, run.ready_at) == (submitted.next_run, time.now)


async def test_a_recurring_job_has_at_most_one_future_run(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(timedelta(seconds=2))))
    for _ in range(40):
        await fire(store)
        runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
        assert sum(run.due_at > time.now for run in runs) <= 1
        time.advance(seconds=0.5)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert submitted.next_run is not None
    assert [run.due_at for run in reversed(runs)] == [
        submitted.next_run + timedelta(seconds=2) * step for step in range(len(runs))
    ]
    assert len(runs) >= 10


async def test_a_recurring_job_fires_whatever_becomes_of_its_runs(store: Store, time: Time) -> None:
    """The schedule row makes the next occurrence, never the previous run's success."""
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job(Every(MINUTE)))
    for _ in range(3):
        time.advance(minutes=1)
        assert (await fire(store)).fired == 1
        await worker.fail(await worker.claim_one())
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert [run.state for run in runs] == [RunState.FAILED] * 3
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == time.now + MINUTE


async def test_missed_occurrences_become_one_run_and_the_cursor_moves_past_them(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    assert submitted.next_run is not None
    time.advance(minutes=30, seconds=30)
    assert (await fire(store)).fired == 1
    run, *missed = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert [item.state for item in missed] == [RunState.SKIPPED] * 29
    assert run.due_at == submitted.next_run + 29 * MINUTE
    assert run.id == run_id(submitted.job_id, run.due_at)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert found.next_run == run.due_at
    time.advance(seconds=15)
    assert (await fire(store)).fired == 1
    assert (await store.reads.runs_of_job(TENANT, submitted.job_id))[0].due_at == run.due_at + MINUTE


async def test_the_scan_says_how_long_until_the_next_cursor(store: Store, time: Time) -> None:
    assert (await fire(store)).next_in is None
    await submit(store, job(Once(delay=timedelta(minutes=10))), job(Once(delay=timedelta(minutes=20))))
    assert (await fire(store)).next_in == timedelta(minutes=10) - LOOK_AHEAD
    time.advance(minutes=10)
    assert (await fire(store)).next_in == timedelta(minutes=10) - LOOK_AHEAD
    time.advance(minutes=30)
    assert (await store.firing.fire_due(1000, lambda due, now: [])).next_in == -timedelta(minutes=20) - LOOK_AHEAD


async def test_no_more_than_the_limit_is_fired_soonest_first(store: Store, time: Time) -> None:
    jobs = [job(Once(delay=timedelta(minutes=minutes))) for minutes in (3, 1, 2)]
    await store.intake.submit(TENANT, jobs)
    time.advance(minutes=5)
    scan = await fire(store, limit=2)
    assert (scan.fired, scan.seen) == (2, 2)
    assert scan.next_in is None, "there may be more at once"
    assert len(await store.reads.runs_of_job(TENANT, jobs[0].id)) == 0
    assert (await fire(store, limit=2)).fired == 1


async def test_a_job_that_cannot_be_processed_is_set_aside_and_the_rest_fires(store: Store, time: Time) -> None:
    jobs = [job(Every(MINUTE), args=b"[%d]" % number) for number in range(5)]
    await store.intake.submit(TENANT, jobs)
    time.advance(minutes=1)

    def one_is_poisoned(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return [SetAside(i.job_id, "its zone is gone") if i.job_id == jobs[2].id else plan_fire(i, now) for i in due]

    scan = await fire(store, planned=one_is_poisoned)
    assert (scan.fired, scan.seen) == (4, 5)
    assert scan.set_aside == (SetAside(jobs[2].id, "its zone is gone"),)
    found = await store.reads.job(TENANT, jobs[2].id)
    assert (found.state, found.problem, found.next_run) == (JobState.PAUSED, "its zone is gone", None)
    time.advance(minutes=1)
    assert (await fire(store)).seen == 4


async def test_a_one_off_that_was_set_aside_can_be_cancelled(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=MINUTE)))
    time.advance(minutes=1)
    await fire(store, planned=lambda due, _: [SetAside(item.job_id, "unreadable") for item in due])
    assert (await store.reads.job(TENANT, submitted.job_id)).problem == "unreadable"
    assert (await store.control.cancel_job(TENANT, submitted.job_id)).state is JobState.CANCELLED


async def test_a_plan_that_raises_changes_nothing(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    time.advance(minutes=1)

    def raises(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        raise RuntimeError("no plan")

    with pytest.raises(RuntimeError, match="no plan"):
        await fire(store, planned=raises)
    assert (await fire(store)).fired == 1
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id)) == 1


async def test_a_recurring_job_without_a_further_occurrence_ends(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(MINUTE)))
    time.advance(minutes=1)

    def last(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return [
            Fire(
                item.job_id,
                item.lane,
                (PlannedRun(run_id(item.job_id, now), now),),
                None,
                None,
                now,
                recurring=True,
            )
            for item in due
        ]

    assert (await fire(store, planned=last)).fired == 1
    found = await store.reads.job(TENANT, submitted.job_id)
    assert found.state is JobState.ENDED
    assert found.next_run == time.now
    time.advance(minutes=5)
    assert (await fire(store)).seen == 0
    worker = await hand(store)
    await worker.succeed(await worker.claim_one())
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run is None


async def test_firing_at_once_never_doubles(store: Store, other: Store, time: Time) -> None:
    jobs = [job(Every(MINUTE)) for _ in range(40)] + [job(Once(delay=MINUTE)) for _ in range(40)]
    await store.intake.submit(TENANT, jobs)
    time.advance(minutes=1)
    scans = await asyncio.gather(*(fire((store, other)[turn % 2], limit=15) for turn in range(16)))
    while (scan := await fire(store, limit=15)).fired:
        scans.append(scan)
    assert sum(scan.fired for scan in scans) == 80
    for item in jobs:
        assert len(await store.reads.runs_of_job(TENANT, item.id)) == 1
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (40, 80)


async def test_plans_are_made_from_what_is_stored(store: Store, time: Time) -> None:
    item = job(Once(delay=MINUTE), queue="slow", task="count")
    await submit(store, item)
    time.advance(minutes=1)
    seen: list[DueJob] = []

    def remember(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        seen.extend(due)
        assert now == time.now
        return plan(due, now)

    await fire(store, planned=remember)
    (due,) = seen
    assert (due.job_id, due.lane, due.next_fire_at) == (item.id, item.lane, time.now)
