"""Submitting without keys: where a job goes, and that a batch is one."""

from datetime import timedelta

import pytest

from duetime.errors import StoreRejected
from duetime.model.job import JobState, Options, encode_options
from duetime.model.lane import Tier
from duetime.model.lists import JobFilter
from duetime.model.run import RunState
from duetime.model.schedule import NOW, Every, Once, make_cron
from duetime.store.protocol.store import Store
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import Time


async def test_a_job_for_now_goes_straight_to_its_run(store: Store, time: Time) -> None:
    submitted = await submit(store, job(args=b'{"to":"you"}', timeout_ms=1500))
    assert submitted.created
    assert submitted.next_run == time.now
    assert submitted.note is None
    assert submitted.run_id is not None
    run = await store.reads.run(TENANT, submitted.run_id)
    assert run.state is RunState.PENDING
    assert (run.job_id, run.args, run.due_at, run.ready_at) == (submitted.job_id, b'{"to":"you"}', time.now, time.now)
    assert (run.attempt, run.lost, run.fence) == (0, 0, 0)
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (0, 1)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.timeout_ms, found.next_run) == (JobState.ACTIVE, 1500, time.now)


@pytest.mark.parametrize("seconds", [0, 1, 15])
async def test_a_job_due_within_the_look_ahead_goes_straight_to_its_run(store: Store, time: Time, seconds: int) -> None:
    later = timedelta(seconds=seconds)
    by_delay = await submit(store, job(Once(delay=later)))
    by_time = await submit(store, job(Once(at=time.now + later)))
    for submitted in (by_delay, by_time):
        assert submitted.run_id is not None
        run = await store.reads.run(TENANT, submitted.run_id)
        assert run.due_at == run.ready_at == submitted.next_run == time.now + later
    assert (await store.reads.counts()).jobs == 0


async def test_a_job_due_later_waits_in_its_own_home(store: Store, time: Time) -> None:
    at = time.now + timedelta(seconds=15, microseconds=1)
    submitted = await submit(store, job(Once(at=at), task="count", queue="slow", tier=Tier.LOW))
    assert (submitted.next_run, submitted.run_id) == (at, None)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.task, found.queue, found.tier) == ("count", "slow", Tier.LOW)
    assert (found.schedule, found.next_run, found.state, found.version) == (Once(at=at), at, JobState.ACTIVE, 1)
    assert found.created_at == time.now
    assert await store.reads.runs_of_job(TENANT, submitted.job_id) == []
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (1, 0)


async def test_a_delay_is_counted_on_the_stores_clock(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=timedelta(hours=2))))
    assert submitted.next_run == time.now + timedelta(hours=2)


async def test_a_time_in_the_past_runs_now_and_says_so(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(at=time.now - timedelta(minutes=90))))
    assert submitted.next_run == time.now
    assert submitted.note == "run_at is 1h30m in the past: it runs now"
    assert submitted.run_id is not None
    assert (await store.reads.run(TENANT, submitted.run_id)).due_at == time.now


async def test_nothing_is_claimed_before_it_is_due(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(Once(delay=timedelta(seconds=10))))
    time.advance(seconds=9.999999)
    assert await worker.claim() == []
    time.advance(seconds=0.000001)
    assert (await worker.claim_one()).due_at == time.now


async def test_a_recurring_job_keeps_its_cursor_and_no_run(store: Store, time: Time) -> None:
    submitted = await submit(store, job(make_cron("30 9 * * *", "Europe/Berlin")))
    assert submitted.next_run == time.now.replace(hour=8, minute=30) + timedelta(days=1)
    assert submitted.run_id is None
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.next_run, found.state) == (submitted.next_run, JobState.ACTIVE)


async def test_an_interval_is_anchored_when_it_is_stored(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Every(timedelta(minutes=1))))
    assert submitted.next_run == time.now + timedelta(minutes=1)
    assert (await store.reads.job(TENANT, submitted.job_id)).schedule == Every(timedelta(minutes=1), time.now, first=1)
    at = time.now + timedelta(hours=1)
    assert (await submit(store, job(Every(timedelta(minutes=1), at)))).next_run == at


async def test_answers_come_in_the_order_of_the_jobs(store: Store, time: Time) -> None:
    jobs = [
        job(Every(timedelta(minutes=1))),
        job(),
        job(Once(delay=timedelta(hours=1))),
        job(key="k"),
        job(Once(at=time.now)),
    ]
    answers = await store.intake.submit(TENANT, jobs)
    assert [answer.job_id for answer in answers] == [item.id for item in jobs]
    assert [answer.run_id is not None for answer in answers] == [False, True, False, True, True]
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (2, 3)


@pytest.mark.parametrize("schedule", [NOW, Once(delay=timedelta(seconds=1)), Once(delay=timedelta(hours=1))])
async def test_a_job_that_stands_twice_in_a_batch_is_refused(store: Store, schedule: Once) -> None:
    twice = job(schedule)
    with pytest.raises(StoreRejected):
        await store.intake.submit(TENANT, [twice, job(schedule), twice])
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (0, 0)


@pytest.mark.parametrize("fault", ["a number that does not fit", "an id that stands twice"])
async def test_a_batch_with_a_bad_row_stores_nothing(store: Store, fault: str) -> None:
    good = [job(), job(Once(delay=timedelta(hours=1))), job(Every(timedelta(minutes=1))), job(key="k")]
    bad = job(timeout_ms=2**70) if fault == "a number that does not fit" else good[0]
    with pytest.raises(StoreRejected):
        await store.intake.submit(TENANT, [*good, bad])
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (0, 0)
    # Neither its lanes nor its keys stand in the way of the rest.
    answers = await store.intake.submit(TENANT, good)
    assert all(answer.created for answer in answers)
    worker = await hand(store)
    assert len(await worker.claim()) == 2


async def test_a_poisoned_row_is_refused_among_jobs_for_now(store: Store) -> None:
    with pytest.raises(StoreRejected):
        await store.intake.submit(TENANT, [job(), job(timeout_ms=2**70)])
    assert (await store.reads.counts()).runs == 0


async def test_big_and_odd_arguments_come_back_as_they_went_in(store: Store) -> None:
    worker = await hand(store)
    args = b'{"text":"' + "\u00e4\u2603\U0001f600".encode() * 50_000 + b'\\u0000"}'
    submitted = await submit(store, job(args=args, options=b'{"name":"\xc3\xa4"}'))
    claimed = await worker.claim_one()
    assert (claimed.args, claimed.options) == (args, b'{"name":"\xc3\xa4"}')
    await worker.succeed(claimed, result=args)
    assert submitted.run_id is not None
    run = await store.reads.run(TENANT, submitted.run_id)
    assert (run.args, run.result) == (args, args)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("at_a_time", [False, True])
async def test_a_large_batch_is_stored_whole_or_not_at_all(
    store: Store, time: Time, labels: bool, at_a_time: bool
) -> None:
    """It takes several statements: no one of them sends more than a megabyte."""
    options = encode_options(Options(owner="ann")) if labels else None
    sizes = [1, 700_000, 5, 700_000, 1_100_000, 7]
    due = Once(at=time.now) if at_a_time else NOW
    jobs = [job(due, args=b'"%s"' % (b"%d" % place * size), options=options) for place, size in enumerate(sizes)]
    answers = await store.intake.submit(TENANT, jobs)
    assert [answer.job_id for answer in answers] == [each.id for each in jobs]
    assert len({answer.next_run for answer in answers}) == 1
    for each, answer in zip(jobs, answers, strict=True):
        assert answer.run_id is not None
        assert (await store.reads.run(TENANT, answer.run_id)).args == each.args
    found = (await store.lists.list_jobs(TENANT, JobFilter(owner="ann"))).items
    assert len(found) == (len(jobs) if labels else 0)
    with pytest.raises(StoreRejected):
        await store.intake.submit(
            TENANT, [*(job(due, args=b'"%s"' % (b"x" * 700_000)) for _ in range(3)), job(due, timeout_ms=2**70)]
        )
    assert (await store.reads.counts()).runs == len(jobs)


async def test_lanes_are_made_once_and_keep_their_ids(store: Store, other: Store) -> None:
    await submit(store, job(), job(tier=Tier.HIGH), job(queue="slow"), job(task="count"))
    first = await store.claims.lanes()
    assert len(first) == 4
    await submit(other, job(), job(tier=Tier.HIGH), job(task="other"))
    lanes = await store.claims.lanes()
    assert lanes[:4] == first
    assert [lane.id for lane in lanes] == sorted(lane.id for lane in lanes)
    assert len(lanes) == 5


async def test_a_job_that_fires_later_lands_in_the_same_lane(store: Store, time: Time) -> None:
    await submit(store, job(Once(delay=timedelta(minutes=1))), job())
    time.advance(minutes=1)
    await fire(store)
    assert len(await store.claims.lanes()) == 1
    worker = await hand(store)
    assert len(await worker.claim()) == 2


async def test_tenants_do_not_share_lanes(store: Store) -> None:
    await submit(store, job())
    await submit(store, job(tenant_id=2), tenant_id=2)
    assert [lane.key.tenant_id for lane in await store.claims.lanes()] == [1, 2]
