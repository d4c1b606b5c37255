"""Runs that go on without their worker: the target that it called finishes them."""

from collections.abc import Sequence
from datetime import timedelta

from duetime.model.attempt import AttemptState, Claimed, Completion
from duetime.model.failure import FailureClass
from duetime.model.limits import QueueLimits
from duetime.model.lists import RunFilter
from duetime.model.retry import Verdict
from duetime.model.run import Event, RunState
from duetime.model.worker import Lost
from duetime.store.protocol.store import Store
from tests.contract.hands import FAIL, SUCCEED, TENANT, hand, job, reap, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)


def over(run: Claimed, within: timedelta = HOUR) -> Completion:
    return Completion(run.run_id, run.fence, Verdict(Event.HAND_OVER, within), AttemptState.HANDED_OVER)


def succeed(found: Sequence[Lost]) -> list[Completion]:
    return [Completion(run.run_id, run.fence, SUCCEED, AttemptState.SUCCEEDED, result=b"1") for run in found]


def fail(found: Sequence[Lost]) -> list[Completion]:
    return [
        Completion(run.run_id, run.fence, FAIL, AttemptState.FAILED, FailureClass.TARGET_REFUSED, "no") for run in found
    ]


def again(found: Sequence[Lost]) -> list[Completion]:
    verdict = Verdict(Event.RETRY, timedelta(0))
    return [
        Completion(run.run_id, run.fence, verdict, AttemptState.FAILED, FailureClass.TARGET_FAILED, "later")
        for run in found
    ]


async def test_it_stays_running_when_its_worker_leaves_and_is_finished_later(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    assert not (await worker.complete(over(run), closed=[worker.claim_no])).refused
    await store.leases.leave(worker.id)
    time.advance(minutes=30)
    assert await reap(store) == 0
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.fence, found.attempt) == (RunState.RUNNING, run.fence, 1)
    assert await store.completions.finish(run.run_id, run.fence, succeed)
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.value, found.worker_id) == (RunState.SUCCEEDED, 1, worker.id)
    assert not await store.completions.finish(run.run_id, run.fence, succeed), "it is over"


async def test_it_is_among_the_running_runs(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.complete(over(run), closed=[worker.claim_no])
    page = await store.lists.list_runs(TENANT, RunFilter(state=RunState.RUNNING))
    assert [item.id for item in page.items] == [run.run_id]
    await store.completions.finish(run.run_id, run.fence, succeed)
    assert not (await store.lists.list_runs(TENANT, RunFilter(state=RunState.RUNNING))).items


async def test_nobody_can_claim_it_and_its_worker_has_no_say_any_more(store: Store, time: Time) -> None:
    worker, other = await hand(store), await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.complete(over(run), closed=[worker.claim_no])
    assert await other.claim() == []
    assert await store.leases.renew(worker.id, timedelta(seconds=30), []), "its worker goes on"
    time.advance(seconds=40)
    await store.leases.renew(worker.id, timedelta(seconds=30), [])
    assert await other.claim() == [], "what a worker does not list is freed, but this is not the worker's"
    assert (await other.succeed(run)).refused


async def test_past_its_deadline_it_fails_like_a_timeout(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.complete(over(run, timedelta(minutes=10)), closed=[worker.claim_no])
    time.advance(minutes=9)
    assert await reap(store) == 0
    time.advance(minutes=2)
    assert await reap(store) == 1
    found = await store.reads.run(TENANT, run.run_id)
    assert found.state is RunState.RETRYING
    assert (found.attempts[0].state, found.attempts[0].failure) == (AttemptState.FAILED, FailureClass.TIMEOUT)
    assert not await store.completions.finish(run.run_id, run.fence, succeed), (
        "the link of that attempt is of no use any more"
    )


async def test_a_retry_can_be_handed_over_anew(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    first = await worker.claim_one()
    await worker.complete(over(first), closed=[worker.claim_no])
    assert await store.completions.finish(first.run_id, first.fence, again)
    second = await worker.claim_one()
    assert (second.run_id, second.attempt) == (first.run_id, 2)
    await worker.complete(over(second), closed=[worker.claim_no])
    assert not await store.completions.finish(first.run_id, first.fence, fail)
    assert await store.completions.finish(second.run_id, second.fence, fail)
    found = await store.reads.run(TENANT, first.run_id)
    assert (found.state, found.failure) == (RunState.FAILED, FailureClass.TARGET_REFUSED)


async def test_the_receiver_may_be_quicker_than_the_worker(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    assert await store.completions.finish(run.run_id, run.fence, succeed)
    assert (await worker.complete(over(run), closed=[worker.claim_no])).refused == {run.run_id}
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED


async def test_cancelling_ends_it(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await worker.complete(over(run), closed=[worker.claim_no])
    await store.control.cancel_run(TENANT, run.run_id)

    def cancel(found: Sequence[Lost]) -> list[Completion]:
        assert [item.cancel_requested for item in found] == [True]
        verdict = Verdict(Event.CANCEL)
        return [Completion(item.run_id, item.fence, verdict, AttemptState.CANCELLED) for item in found]

    assert await store.reaping.reap(10, cancel, timedelta(seconds=5)) == 1
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED


async def test_what_shall_be_cancelled_is_not_handed_over(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await store.control.cancel_run(TENANT, run.run_id)
    await worker.complete(over(run), closed=[worker.claim_no])
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.CANCELLED


async def test_it_goes_with_others_in_one_batch(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job(), job(), job())
    runs = await worker.claim()
    done = Completion(runs[1].run_id, runs[1].fence, SUCCEED, AttemptState.SUCCEEDED)
    later = Completion(runs[2].run_id, runs[2].fence, Verdict(Event.RETRY, HOUR), AttemptState.FAILED)
    assert not (await worker.complete(over(runs[0]), done, later, closed=[worker.claim_no])).refused
    states = [(await store.reads.run(TENANT, run.run_id)).state for run in runs]
    assert states == [RunState.RUNNING, RunState.SUCCEEDED, RunState.RETRYING]


async def test_it_counts_against_the_limit_of_its_queue(store: Store) -> None:
    await store.queues.limit_queue(TENANT, "default", QueueLimits(1, None))
    await submit(store, job(), job())
    worker = await hand(store)
    (run,) = await worker.claim()
    await worker.complete(over(run), closed=[worker.claim_no])
    assert await worker.claim() == [], "it runs still"
    await store.completions.finish(run.run_id, run.fence, succeed)
    assert len(await worker.claim()) == 1
