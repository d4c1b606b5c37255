"""Deleting jobs, retrying runs, replaying dead letters."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest

from duetime.errors import Conflict, NotFound
from duetime.ids import new_id, show
from duetime.model.edit import Changes
from duetime.model.job import Options, decode_options, encode_options
from duetime.model.lists import DeadFilter, JobFilter, JobStatus, ReplayPace, RunFilter
from duetime.model.policy import Misfire
from duetime.model.retry import RetryPolicy
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, Hand, fire, hand, job, submit
from tests.contract.worlds import Time

HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)
NONCE = b"n"


async def dead(store: Store, worker: Hand, **given: Any) -> UUID:
    submitted = await submit(store, job(**given))
    (run,) = await worker.claim()
    await worker.fail(run)
    assert submitted.run_id is not None
    return submitted.run_id


@pytest.mark.parametrize("home", ["stored", "waiting", "running", "over", "recurring"])
async def test_a_deleted_job_is_gone_and_its_runs_stay(store: Store, time: Time, home: str) -> None:
    schedule = {"stored": Once(delay=HOUR), "recurring": Every(MINUTE)}.get(home, Once())
    said = encode_options(Options(owner="u1", key="k"))
    submitted = await submit(store, job(schedule, options=said, key="k"))
    worker = await hand(store, HOUR)
    if home == "recurring":
        time.advance(minutes=1)
        await fire(store)
    claimed = await worker.claim() if home in ("running", "over", "recurring") else []
    if home != "running":
        await worker.succeed(*claimed)
    await store.replay.delete_job(TENANT, submitted.job_id)
    for asking in (
        store.reads.job,
        store.lists.job_status,
        store.replay.delete_job,
        store.control.cancel_job,
        store.control.pause_job,
    ):
        with pytest.raises(NotFound):
            await asking(TENANT, submitted.job_id)
    assert (await store.lists.list_jobs(TENANT, JobFilter())).items == ()
    assert (await store.lists.list_jobs(TENANT, JobFilter(owner="u1"))).items == ()
    if home == "running":
        assert await store.leases.cancellations(worker.id) == (claimed[0].run_id,)
        await worker.retry(claimed[0])
    runs = (await store.lists.list_runs(TENANT, RunFilter())).items
    ended = RunState.SUCCEEDED if home in ("over", "recurring") else RunState.CANCELLED
    assert [run.state for run in runs] == [ended]
    time.advance(hours=2)
    assert (await fire(store)).fired == 0
    again = await submit(store, job(schedule, options=said, key="k"))
    assert again.created and again.job_id != submitted.job_id
    assert [item.id for item in (await store.lists.list_jobs(TENANT, JobFilter())).items] == [again.job_id]


async def test_another_tenants_job_is_not_deleted(store: Store) -> None:
    submitted = await submit(store, job())
    for tenant_id, job_id in ((STRANGER, submitted.job_id), (TENANT, new_id())):
        with pytest.raises(NotFound):
            await store.replay.delete_job(tenant_id, job_id)
    assert (await store.reads.job(TENANT, submitted.job_id)).id == submitted.job_id


async def test_a_run_that_waits_for_its_next_try_can_be_hurried(store: Store, time: Time) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    await worker.retry(await worker.claim_one(), 600)
    assert submitted.run_id is not None
    assert await worker.claim() == []
    run = await store.replay.retry_run(TENANT, submitted.run_id, NONCE)
    assert (run.id, run.state, run.ready_at) == (submitted.run_id, RunState.RETRYING, time.now)
    assert (await worker.claim_one()).run_id == submitted.run_id


@pytest.mark.parametrize("end", ["failed", "cancelled"])
async def test_a_run_that_is_over_is_repeated_by_a_new_one(store: Store, time: Time, end: str) -> None:
    worker = await hand(store)
    submitted = await submit(store, job(args=b'{"a":1}', timeout_ms=5000, queue="mail"))
    assert submitted.run_id is not None
    if end == "failed":
        await worker.fail(await worker.claim_one())
    else:
        await store.control.cancel_run(TENANT, submitted.run_id)
    time.advance(seconds=10)
    run = await store.replay.retry_run(TENANT, submitted.run_id, NONCE)
    assert run.id != submitted.run_id
    assert (run.job_id, run.state, run.due_at) == (submitted.job_id, RunState.PENDING, time.now)
    assert (await store.lists.list_dead_letters(TENANT, DeadFilter())).items == ()
    claimed = await worker.claim_one()
    assert (claimed.run_id, claimed.args, claimed.timeout_ms, claimed.attempt) == (run.id, b'{"a":1}', 5000, 1)
    (item, old) = (await store.lists.list_runs(TENANT, RunFilter())).items
    assert (item.replays, old.id) == (show("run", submitted.run_id), submitted.run_id)
    assert (await store.lists.job_status(TENANT, submitted.job_id)).status is JobStatus.RUNNING
    await worker.succeed(claimed)
    assert (await store.lists.job_status(TENANT, submitted.job_id)).status is JobStatus.SUCCEEDED
    for status, count in ((JobStatus.SUCCEEDED, 1), (JobStatus.FAILED, 0), (JobStatus.CANCELLED, 0)):
        assert len((await store.lists.list_jobs(TENANT, JobFilter(status=status))).items) == count


async def test_a_job_that_was_repeated_many_times_is_still_in_its_list(store: Store, time: Time) -> None:
    """The first of its runs, by which it is known, is further down than a page looks at first."""
    worker = await hand(store, HOUR)
    older = (await submit(store, job())).job_id
    await worker.succeed(await worker.claim_one())
    submitted = await submit(store, job())
    run_id = submitted.run_id
    await worker.fail(await worker.claim_one())
    for nonce in range(20):
        assert run_id is not None
        time.advance(seconds=10)
        run_id = (await store.replay.retry_run(TENANT, run_id, bytes([nonce]) * len(NONCE))).id
        await worker.fail(await worker.claim_one())
    page = await store.lists.list_jobs(TENANT, JobFilter(), limit=1)
    assert [item.id for item in page.items] == [submitted.job_id]
    page = await store.lists.list_jobs(TENANT, JobFilter(), page.next, limit=1)
    assert [item.id for item in page.items] == [older]


async def missed(store: Store, time: Time, **given: Any) -> tuple[UUID, UUID]:
    """An hourly job that missed some occurrences, and the newest run that was not made."""
    said = Options(misfire=Misfire("skip"), concurrency_key="c", retry=RetryPolicy(retries=9))
    submitted = await submit(store, job(Cron("0 * * * *"), options=encode_options(said), **given))
    time.advance(hours=3, minutes=30)
    await fire(store)
    skipped, *_ = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert skipped.state is RunState.SKIPPED
    return submitted.job_id, skipped.id


async def test_a_skipped_occurrence_is_repeated_with_what_its_job_says(store: Store, time: Time) -> None:
    job_id, skipped = await missed(store, time, args=b'{"to":"ops"}', timeout_ms=5000)
    await store.control.edit_job(TENANT, job_id, Changes(queue="mail"))
    run = await store.replay.retry_run(TENANT, skipped, NONCE)
    assert (run.job_id, run.state, run.queue) == (job_id, RunState.PENDING, "mail")
    claimed = await (await hand(store)).claim_one()
    assert (claimed.run_id, claimed.args, claimed.timeout_ms) == (run.id, b'{"to":"ops"}', 5000)
    said = decode_options(claimed.options)
    assert (said.retry.retries, said.concurrency_key, said.replays) == (9, "c", show("run", skipped))


async def test_a_skipped_occurrence_of_a_job_that_is_gone_is_not_repeated(store: Store, time: Time) -> None:
    job_id, skipped = await missed(store, time)
    await store.control.cancel_job(TENANT, job_id)
    time.advance(minutes=1)
    await store.pruning.prune(timedelta(seconds=1), HOUR, 1)
    with pytest.raises(Conflict, match="was pruned"):
        await store.replay.retry_run(TENANT, skipped, NONCE)


async def test_only_what_ended_badly_is_repeated(store: Store) -> None:
    worker = await hand(store)
    done = (await submit(store, job())).run_id
    await worker.succeed(await worker.claim_one())
    running = (await submit(store, job())).run_id
    await worker.claim_one()
    waiting = (await submit(store, job())).run_id
    for run_id in (done, running, waiting):
        assert run_id is not None
        with pytest.raises(Conflict):
            await store.replay.retry_run(TENANT, run_id, NONCE)
    failed = await dead(store, worker, task="count") if await worker.claim() else None
    assert failed is not None
    for tenant_id, run_id in ((STRANGER, failed), (TENANT, new_id())):
        with pytest.raises(NotFound):
            await store.replay.retry_run(tenant_id, run_id, NONCE)
    await store.replay.delete_job(TENANT, (await store.reads.run(TENANT, failed)).job_id)
    with pytest.raises(Conflict):
        await store.replay.retry_run(TENANT, failed, NONCE)


async def test_dead_letters_are_repeated_at_a_rate(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    died = []
    for _ in range(4):
        died.append(await dead(store, worker))
        time.advance(seconds=1)
    other = await dead(store, worker, task="count")
    replayed = await store.replay.replay_dead_letters(TENANT, DeadFilter(task="greet"), ReplayPace(3, 0.5), NONCE)
    assert ([old for old, _ in replayed.runs], replayed.more) == (died[:3], True)
    new = [run_id for _, run_id in replayed.runs]
    assert [run.run_id for run in await worker.claim()] == new[:1]
    time.advance(seconds=2)
    assert [run.run_id for run in await worker.claim()] == new[1:2]
    left = (await store.lists.list_dead_letters(TENANT, DeadFilter())).items
    assert [item.run_id for item in left] == [other, died[3]]
    assert (await store.replay.replay_dead_letters(STRANGER, DeadFilter(), ReplayPace(), NONCE)).runs == ()


async def test_a_dead_letter_is_repeated_once_whoever_asks(store: Store, other: Store) -> None:
    worker = await hand(store, HOUR)
    died = {await dead(store, worker) for _ in range(5)}
    answers = await asyncio.gather(
        *(
            asked.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), bytes([turn]))
            for turn in range(4)
            for asked in (store, other)
        )
    )
    repeated = [old for answer in answers for old, _ in answer.runs]
    assert sorted(repeated) == sorted(died)
    assert len(await worker.claim()) <= 5


async def test_dead_letters_of_deleted_jobs_are_passed_over(store: Store) -> None:
    worker = await hand(store, HOUR)
    died = [await dead(store, worker) for _ in range(2)]
    await store.replay.delete_job(TENANT, (await store.reads.run(TENANT, died[0])).job_id)
    replayed = await store.replay.replay_dead_letters(TENANT, DeadFilter(), ReplayPace(), NONCE)
    assert [old for old, _ in replayed.runs] == died[1:]
    assert await store.replay.discard_dead_letters(TENANT, DeadFilter()) == 1


async def test_dead_letters_are_discarded(store: Store) -> None:
    worker = await hand(store, HOUR)
    died = [await dead(store, worker) for _ in range(3)]
    assert await store.replay.discard_dead_letters(STRANGER, DeadFilter()) == 0
    assert await store.replay.discard_dead_letters(TENANT, DeadFilter(run_id=died[1])) == 1
    assert await store.replay.discard_dead_letters(TENANT, DeadFilter(), limit=1) == 1
    left = (await store.lists.list_dead_letters(TENANT, DeadFilter())).items
    assert [item.run_id for item in left] == [died[2]]
