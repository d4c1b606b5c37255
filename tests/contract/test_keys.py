"""Keys that callers chose: idempotency keys, and `key=` for jobs that are replaced in place."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from duetime.errors import InvalidInput, JobBusy, KeyInFlight, KeyReused
from duetime.model.idempotency import KeyedRequest, keyed_request
from duetime.model.job import JobState, NewJob, Submitted
from duetime.model.schedule import Cron, Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, reap, submit
from tests.contract.worlds import Time

IN_AN_HOUR = Once(delay=timedelta(hours=1))
EVERY_MINUTE = Every(timedelta(minutes=1))


@pytest.mark.parametrize("schedule", [Once(), IN_AN_HOUR, EVERY_MINUTE], ids=["now", "later", "recurring"])
async def test_an_idempotency_key_answers_the_first_job_again(store: Store, time: Time, schedule: Once | Every) -> None:
    first = await submit(store, job(schedule, idempotency_key="order-7"))
    time.advance(seconds=30)
    again = await submit(store, job(schedule, idempotency_key="order-7"))
    assert not again.created
    assert (again.job_id, again.run_id, again.next_run) == (first.job_id, first.run_id, first.next_run)
    counts = await store.reads.counts()
    assert counts.jobs + counts.runs == 1


async def test_an_idempotency_key_answers_also_when_its_job_is_over(store: Store, time: Time) -> None:
    worker = await hand(store)
    first = await submit(store, job(idempotency_key="order-7"))
    await worker.succeed(await worker.claim_one())
    time.advance(hours=2)
    again = await submit(store, job(idempotency_key="order-7"))
    assert (again.job_id, again.created) == (first.job_id, False)
    assert (await store.reads.counts()).runs == 0


async def test_an_idempotency_key_with_another_request_is_refused(store: Store) -> None:
    await submit(store, job(idempotency_key="order-7"))
    with pytest.raises(KeyReused, match="order-7") as caught:
        await submit(store, job(), job(args=b"[1]", idempotency_key="order-7"))
    assert caught.value.field == "idempotency_key"
    assert (await store.reads.counts()).runs == 1


async def test_an_idempotency_key_of_a_batch_is_bound_to_all_of_it_and_the_key_of_a_job_is_not(store: Store) -> None:
    def asked(batch: bytes, **keys: str) -> NewJob:
        return msgspec.structs.replace(job(**keys), request_fingerprint=batch)  # type: ignore[arg-type]

    first = await submit(store, asked(b"batch", idempotency_key="b/0", key="k"))
    again = await submit(store, asked(b"batch", idempotency_key="b/0", key="k"))
    assert (again.job_id, again.replayed) == (first.job_id, True)
    with pytest.raises(KeyReused):
        await submit(store, asked(b"another", idempotency_key="b/0", key="k"))
    await (await hand(store)).claim_one()
    for same in (asked(b"another", idempotency_key="c/0", key="k"), job(key="k")):
        found = await submit(store, same)
        assert (found.job_id, found.run_id, found.created) == (first.job_id, first.run_id, False)


async def test_keys_belong_to_their_tenant(store: Store) -> None:
    mine = await submit(store, job(idempotency_key="order-7", key="k"))
    theirs = await submit(store, job(tenant_id=STRANGER, idempotency_key="order-7", key="k"), tenant_id=STRANGER)
    assert theirs.created
    assert theirs.job_id != mine.job_id


async def test_a_key_and_an_idempotency_key_of_one_name_do_not_meet(store: Store) -> None:
    first = await submit(store, job(key="k"))
    second = await submit(store, job(idempotency_key="k"))
    assert second.created
    assert second.job_id != first.job_id


@pytest.mark.parametrize("schedule", [Once(), IN_AN_HOUR, EVERY_MINUTE], ids=["now", "later", "recurring"])
async def test_a_key_with_the_same_request_changes_nothing(store: Store, time: Time, schedule: Once | Every) -> None:
    first = await submit(store, job(schedule, key="report"))
    time.advance(seconds=1)
    again = await submit(store, job(schedule, key="report"))
    assert (again.job_id, again.next_run, again.created) == (first.job_id, first.next_run, False)
    counts = await store.reads.counts()
    assert counts.jobs + counts.runs == 1


async def test_a_key_with_another_request_replaces_the_job_in_place(store: Store, time: Time) -> None:
    first = await submit(store, job(IN_AN_HOUR, key="report"))
    at = time.now + timedelta(hours=5)
    second = await submit(store, job(Once(at=at), key="report", args=b"[2]", task="count"))
    assert (second.job_id, second.next_run, second.created) == (first.job_id, at, False)
    found = await store.reads.job(TENANT, first.job_id)
    assert (found.version, found.args, found.task, found.next_run) == (2, b"[2]", "count", at)
    third = await submit(store, job(EVERY_MINUTE, key="report"))
    assert third.job_id == first.job_id
    assert (await store.reads.job(TENANT, first.job_id)).version == 3
    assert (await store.reads.counts()).jobs == 1


async def test_a_key_spans_the_homes(store: Store, time: Time) -> None:
    """A keyed job that has become its run is still the one that the key names."""
    first = await submit(store, job(IN_AN_HOUR, key="report"))
    time.advance(minutes=59, seconds=50)
    await fire(store)
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs) == (0, 1)
    same = await submit(store, job(IN_AN_HOUR, key="report"))
    assert (same.job_id, same.created) == (first.job_id, False)
    other = await submit(store, job(key="report", args=b"[2]"))
    assert other.job_id == first.job_id
    (run,) = await store.reads.runs_of_job(TENANT, first.job_id)
    assert run.args == b"[2]"
    counts = await store.reads.counts()
    assert (counts.jobs, counts.runs, counts.history) == (0, 1, 0)


async def test_a_withdrawn_run_is_no_end(store: Store) -> None:
    await submit(store, job(key="report"))
    later = await submit(store, job(IN_AN_HOUR, key="report"))
    assert await store.reads.runs_of_job(TENANT, later.job_id) == []
    assert (await store.reads.counts()).history == 0


async def test_a_schedule_that_is_over_replaces_nothing(store: Store, time: Time) -> None:
    first = await submit(store, job(Once(delay=timedelta(seconds=5)), key="k"))
    over = Cron("0 9 * * *", end_at=time.now - timedelta(days=1))
    with pytest.raises(InvalidInput, match="no occurrence left"):
        await submit(store, job(over, key="k"))
    time.advance(seconds=5)
    assert (await (await hand(store)).claim_one()).job_id == first.job_id


async def test_a_schedule_that_is_over_creates_nothing(store: Store, time: Time) -> None:
    over = Cron("0 9 * * *", end_at=time.now - timedelta(days=1))
    for key in ("k", "k", None):
        answer = await submit(store, job(over, key=key))
        assert (answer.created, answer.next_run) == (False, None)
        assert "nothing was stored" in str(answer.note)
    assert (await submit(store, job(Cron("0 9 * * *"), key="k"))).created


async def test_a_one_off_that_has_started_cannot_be_replaced(store: Store) -> None:
    worker = await hand(store)
    first = await submit(store, job(key="report"))
    run = await worker.claim_one()
    with pytest.raises(JobBusy, match="report"):
        await submit(store, job(), job(key="report", args=b"[2]"))
    assert (await store.reads.counts()).runs == 1
    same = await submit(store, job(key="report"))
    assert (same.job_id, same.created) == (first.job_id, False)
    await worker.retry(run)
    with pytest.raises(JobBusy):
        await submit(store, job(key="report", args=b"[2]"))


async def test_a_key_is_free_when_its_job_is_over(store: Store) -> None:
    worker = await hand(store)
    first = await submit(store, job(key="report"))
    await worker.succeed(await worker.claim_one())
    second = await submit(store, job(key="report"))
    assert second.created
    assert second.job_id != first.job_id
    assert (await store.reads.job(TENANT, first.job_id)).state is JobState.ENDED


async def test_a_key_is_free_when_its_recurring_job_was_cancelled_while_it_runs(store: Store, time: Time) -> None:
    worker = await hand(store)
    first = await submit(store, job(EVERY_MINUTE, key="report"))
    time.advance(seconds=60)
    await fire(store)
    await worker.register()
    await worker.claim_one()
    await store.control.cancel_job(TENANT, first.job_id)
    second = await submit(store, job(EVERY_MINUTE, key="report"))
    assert second.created
    assert second.job_id != first.job_id


async def test_an_edit_rewinds_the_cursor(store: Store, time: Time) -> None:
    """A future run that was made ahead is withdrawn, and its occurrence fires again under the new version."""
    first = await submit(store, job(Every(timedelta(minutes=1), time.now + timedelta(minutes=1)), key="report"))
    time.advance(seconds=50)
    await fire(store)
    (ahead,) = await store.reads.runs_of_job(TENANT, first.job_id)
    edited = job(Every(timedelta(minutes=2), time.now + timedelta(seconds=10)), key="report", args=b"[2]")
    second = await submit(store, edited)
    assert (second.job_id, second.next_run) == (first.job_id, ahead.due_at)
    assert await store.reads.runs_of_job(TENANT, first.job_id) == []
    await fire(store)
    (again,) = await store.reads.runs_of_job(TENANT, first.job_id)
    assert (again.id, again.due_at, again.args) == (ahead.id, ahead.due_at, b"[2]")


async def test_an_edit_never_fires_a_claimed_occurrence_again(store: Store, time: Time) -> None:
    worker = await hand(store)
    minute = timedelta(minutes=1)
    first = await submit(store, job(Every(minute, time.now + minute), key="report"))
    time.advance(minutes=1)
    await fire(store)
    await worker.register()
    run = await worker.claim_one()
    assert run.due_at == time.now
    second = await submit(store, job(Every(minute, time.now), key="report", args=b"[2]"))
    assert (second.job_id, second.next_run) == (first.job_id, time.now + minute)
    scan = await fire(store)
    assert scan.fired == 0
    await worker.succeed(run)
    third = await submit(store, job(Every(minute, time.now), key="report", args=b"[3]"))
    assert third.next_run == time.now + minute
    assert [found.id for found in await store.reads.runs_of_job(TENANT, first.job_id)] == [run.run_id]


async def test_a_handed_back_run_keeps_its_fence_whatever_is_submitted(store: Store) -> None:
    """A run that a worker once held is not withdrawn: its fence would start again from nothing."""
    worker = await hand(store)
    await submit(store, job(key="report"))
    run = await worker.claim_one()
    await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
    with pytest.raises(JobBusy):
        await submit(store, job(key="report", args=b"[2]"))
    assert (await worker.claim_one()).fence == 2


async def test_a_batch_acts_as_its_requests_one_after_the_other(store: Store) -> None:
    jobs = [
        job(idempotency_key="a"),
        job(idempotency_key="a"),
        job(IN_AN_HOUR, key="k", args=b"[1]"),
        job(IN_AN_HOUR, key="k", args=b"[1]"),
        job(IN_AN_HOUR, key="k", args=b"[2]"),
    ]
    answers = await store.intake.submit(TENANT, jobs)
    assert [answer.created for answer in answers] == [True, False, True, False, False]
    assert answers[0].job_id == answers[1].job_id
    assert {answer.job_id for answer in answers[2:]} == {jobs[2].id}
    found = await store.reads.job(TENANT, jobs[2].id)
    assert (found.args, found.version) == (b"[2]", 2)
    with pytest.raises(KeyReused):
        await store.intake.submit(TENANT, [job(idempotency_key="b"), job(args=b"[2]", idempotency_key="b")])


async def test_an_idempotency_key_that_came_with_a_known_key_is_remembered(store: Store) -> None:
    """The answer to a request stays the answer to its repetition, though the job it led to is over by then."""
    worker = await hand(store)
    first = await submit(store, job(key="k", idempotency_key="one"))
    second = await submit(store, job(key="k", idempotency_key="two"))
    assert (second.job_id, second.created) == (first.job_id, False)
    await worker.succeed(await worker.claim_one())
    again = await submit(store, job(key="k", idempotency_key="two"))
    assert (again.job_id, again.created) == (first.job_id, False)


async def test_many_requests_with_one_key_at_once_make_one_job(store: Store, other: Store) -> None:
    async def ask(place: Store, item: NewJob) -> Submitted | None:
        try:
            return await submit(place, item)
        except KeyInFlight:
            return None

    jobs = [job(idempotency_key="order-7") for _ in range(20)]
    answers = await asyncio.gather(*(ask((store, other)[n % 2], item) for n, item in enumerate(jobs)))
    found = [answer for answer in answers if answer is not None]
    assert sum(answer.created for answer in found) == 1
    assert len({answer.job_id for answer in found}) == 1
    assert (await store.reads.counts()).runs == 1


async def test_a_run_lost_once_counts_as_started_for_its_key(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(key="report"))
    await worker.claim_one()
    time.advance(seconds=31)
    assert await reap(store) == 1
    with pytest.raises(JobBusy):
        await submit(store, job(key="report", args=b"[2]"))


async def test_requests_whose_answers_the_service_keeps(store: Store) -> None:
    def asked(key: str = "k", what: str = "a") -> KeyedRequest:
        request = keyed_request(key, "operation", what)
        assert request is not None
        return request

    assert await store.answers.begin_request(TENANT, asked()) is None
    with pytest.raises(KeyInFlight):
        await store.answers.begin_request(TENANT, asked())
    with pytest.raises(KeyReused):
        await store.answers.begin_request(TENANT, asked(what="b"))
    await store.answers.end_request(TENANT, asked(what="b"), b"not mine")
    await store.answers.end_request(TENANT, asked(), b"answer")
    again = asked()
    assert await store.answers.begin_request(TENANT, again) == b"answer" and again.replayed
    await store.answers.end_request(TENANT, asked(), None)
    assert await store.answers.begin_request(TENANT, asked()) == b"answer", "what was answered stays"
    with pytest.raises(KeyReused):
        await store.intake.submit(TENANT, [job(idempotency_key="k")])
    assert await store.answers.begin_request(TENANT, asked("other")) is None
    await store.answers.end_request(TENANT, asked("other"), None)
    assert await store.answers.begin_request(TENANT, asked("other", "b")) is None, (
        "a request that did nothing is forgotten"
    )
