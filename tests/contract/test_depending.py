"""Jobs that depend on others: every way in which a parent ends, and every moment at which a child may come."""

import asyncio
from datetime import timedelta
from typing import Any
from uuid import UUID

import msgspec
import pytest

from duetime.errors import Conflict, InvalidInput
from duetime.ids import new_id, show
from duetime.model.dependency import DependsOn, Need, Otherwise, Rule, Wanted
from duetime.model.edit import Changes
from duetime.model.job import NewJob, Options, encode_options
from duetime.model.retry import RetryPolicy
from duetime.model.run import RunState
from duetime.model.schedule import NOW, Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, Hand, cancelled, failed, fire, hand, job, reap, submit
from tests.contract.worlds import Time

HOUR = timedelta(hours=1)
ALL_GOOD = Rule()
ANY_END = Rule(wanted=Wanted.FINISHED)


def child(*parents: UUID, rule: Rule = ALL_GOOD, schedule: Once = NOW, **given: Any) -> NewJob:
    return msgspec.structs.replace(job(schedule, **given), depends_on=DependsOn(parents, rule))


async def settle(store: Store) -> None:
    while await store.graphs.settle(100):
        pass


async def state(store: Store, job_id: UUID) -> RunState:
    (run,) = await store.reads.runs_of_job(TENANT, job_id)
    return run.state


async def test_a_child_waits_for_its_parent_and_runs_when_it_succeeded(store: Store, time: Time) -> None:
    worker = await hand(store)
    parent = await submit(store, job())
    dependent = await submit(store, child(parent.job_id))
    assert dependent.next_run is None
    assert await state(store, dependent.job_id) is RunState.BLOCKED
    run = await worker.claim_one()
    assert run.job_id == parent.job_id
    time.advance(seconds=5)
    await worker.succeed(run, result=b"42")
    await settle(store)
    freed = await worker.claim_one()
    assert (freed.job_id, freed.ready_at) == (dependent.job_id, time.now)
    (seen,) = await store.graphs.held_parents(worker.id, freed.run_id)
    assert (seen.job_id, seen.run_id, seen.state, seen.value) == (parent.job_id, run.run_id, RunState.SUCCEEDED, 42)
    assert await store.graphs.parents(TENANT, freed.run_id) == [seen]
    assert await store.graphs.settle(10) == 0


ENDS = [
    "succeeded",
    "failed",
    "cancelled",
    "cancelled while waiting",
    "cancelled before it was due",
    "deleted",
    "timed out",
    "lost",
    "skipped",
]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("rule", [Rule(), ANY_END], ids=["success", "finished"])
async def test_every_end_of_a_parent_is_handed_on(store: Store, time: Time, end: str, rule: Rule) -> None:
    worker = await hand(store, HOUR)
    never_again = encode_options(Options(retry=RetryPolicy(retries=0, lost_retries=0)))
    later = end == "cancelled before it was due"
    when = Once(delay=HOUR) if later else Once()
    parent = await submit(store, job(when, options=never_again, timeout_ms=1000))
    dependent = await submit(store, child(parent.job_id, rule=rule))
    await end_parent(store, time, worker, parent.job_id, end)
    await settle(store)
    runs = end == "succeeded" or rule is ANY_END
    assert await state(store, dependent.job_id) is (RunState.PENDING if runs else RunState.CANCELLED)
    if not runs:
        (run,) = await store.reads.runs_of_job(TENANT, dependent.job_id)
        assert run.error is not None and show("job", parent.job_id) in run.error


async def end_parent(store: Store, time: Time, worker: Hand, job_id: UUID, end: str) -> None:
    if end == "cancelled while waiting":
        await store.control.cancel_job(TENANT, job_id)
        return
    if end == "cancelled before it was due":
        await store.control.cancel_job(TENANT, job_id)
        return
    if end == "deleted":
        await store.replay.delete_job(TENANT, job_id)
        return
    run = await worker.claim_one()
    match end:
        case "succeeded":
            await worker.succeed(run)
        case "failed":
            await worker.complete(failed(run))
        case "cancelled":
            await worker.complete(cancelled(run))
        case "timed out":
            time.advance(seconds=30)
            assert await reap(store) == 1
        case "lost":
            await store.leases.leave(worker.id)
            assert await reap(store) == 1
        case "skipped":
            from duetime.model.completion import complete
            from duetime.model.outcome import Skipped

            await worker.complete(complete(run, Skipped("too late"), None))


async def test_a_retry_is_no_end(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    parent = await submit(store, job())
    dependent = await submit(store, child(parent.job_id, rule=ANY_END))
    await worker.retry(await worker.claim_one(), 60)
    assert await store.graphs.settle(10) == 0
    assert await state(store, dependent.job_id) is RunState.BLOCKED
    time.advance(seconds=60)
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert (await worker.claim_one()).job_id == dependent.job_id


@pytest.mark.parametrize(
    ("rule", "ends", "expected"),
    [
        (Rule(), "ss", RunState.PENDING),
        (Rule(), "s", RunState.BLOCKED),
        (Rule(), "f", RunState.CANCELLED),
        (Rule(), "sf", RunState.CANCELLED),
        (Rule(otherwise=Otherwise.RUN), "f", RunState.BLOCKED),
        (Rule(otherwise=Otherwise.RUN), "fs", RunState.PENDING),
        (Rule(wanted=Wanted.FINISHED), "f", RunState.BLOCKED),
        (Rule(wanted=Wanted.FINISHED), "ff", RunState.PENDING),
        (Rule(Need.ANY), "s", RunState.PENDING),
        (Rule(Need.ANY), "f", RunState.BLOCKED),
        (Rule(Need.ANY), "fs", RunState.PENDING),
        (Rule(Need.ANY), "ff", RunState.CANCELLED),
        (Rule(Need.ANY, otherwise=Otherwise.RUN), "ff", RunState.PENDING),
        (Rule(Need.ANY, Wanted.FINISHED), "f", RunState.PENDING),
    ],
)
@pytest.mark.parametrize("late", [False, True], ids=["before", "after"])
async def test_the_rules(store: Store, rule: Rule, ends: str, expected: RunState, late: bool) -> None:
    """Whether the child comes before its parents end or after, it ends up in the same place."""
    worker = await hand(store)
    parents = [(await submit(store, job())).job_id for _ in range(2)]
    dependent = None if late else await submit(store, child(*parents, rule=rule))
    claimed = {run.job_id: run for run in await worker.claim()}
    for job_id, how in zip(parents, ends, strict=False):
        await (worker.succeed(claimed[job_id]) if how == "s" else worker.fail(claimed[job_id]))
        await settle(store)
    if dependent is None:
        dependent = await submit(store, child(*parents, rule=rule))
    assert await state(store, dependent.job_id) is expected
    rest = [claimed[job_id] for job_id in parents[len(ends) :]]
    await worker.succeed(*rest)
    await settle(store)
    assert await state(store, dependent.job_id) is not RunState.BLOCKED


async def test_a_child_that_is_due_later_waits_for_its_time_too(store: Store, time: Time) -> None:
    worker = await hand(store, HOUR)
    parent = await submit(store, job())
    dependent = await submit(store, child(parent.job_id, schedule=Once(delay=timedelta(minutes=10))))
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert await worker.claim() == []
    time.advance(minutes=10)
    assert (await worker.claim_one()).job_id == dependent.job_id


async def test_a_parent_that_lies_ahead_is_waited_for(store: Store, time: Time) -> None:
    worker = await hand(store, 3 * HOUR)
    parent = await submit(store, job(Once(delay=HOUR)))
    dependent = await submit(store, child(parent.job_id))
    time.advance(hours=1)
    assert (await fire(store)).fired == 1
    run = await worker.claim_one()
    assert run.job_id == parent.job_id
    await worker.succeed(run)
    await settle(store)
    assert (await worker.claim_one()).job_id == dependent.job_id


async def test_ends_cascade(store: Store) -> None:
    worker = await hand(store)
    first = await submit(store, job())
    chain = [first.job_id]
    for _ in range(5):
        chain.append((await submit(store, child(chain[-1]))).job_id)
    await worker.fail(await worker.claim_one())
    await settle(store)
    assert [await state(store, job_id) for job_id in chain[1:]] == [RunState.CANCELLED] * 5


async def test_a_parent_that_is_replaced_is_still_waited_for(store: Store) -> None:
    worker = await hand(store)
    parent = await submit(store, job(key="k"))
    dependent = await submit(store, child(parent.job_id))
    again = await submit(store, job(key="k", args=b'{"to": 1}'))
    assert (again.job_id, again.created) == (parent.job_id, False)
    assert await store.graphs.settle(10) == 0
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert (await worker.claim_one()).job_id == dependent.job_id


async def test_a_child_that_is_replaced_waits_for_its_new_parents(store: Store) -> None:
    worker = await hand(store)
    one, two = (await submit(store, job())).job_id, (await submit(store, job())).job_id
    first = await submit(store, child(one, key="k"))
    second = await submit(store, child(two, key="k", args=b'{"n": 2}'))
    assert first.job_id == second.job_id
    claimed = {run.job_id: run for run in await worker.claim()}
    await worker.fail(claimed[one])
    await settle(store)
    assert await state(store, first.job_id) is RunState.BLOCKED
    await worker.succeed(claimed[two])
    await settle(store)
    assert (await worker.claim_one()).args == b'{"n": 2}'


@pytest.mark.parametrize("schedule", [Once(delay=HOUR), Every(HOUR)], ids=["once", "recurring"])
async def test_a_stored_job_is_not_made_to_wait_under_its_key(store: Store, schedule: Once | Every) -> None:
    parent = await submit(store, job(Once(delay=2 * HOUR)))
    stored = await submit(store, job(schedule, key="k", args=b'{"n": 1}'))
    with pytest.raises(InvalidInput, match="an edit cannot add depends_on") as refused:
        await submit(store, child(parent.job_id, key="k", args=b'{"n": 2}'))
    assert refused.value.field == "depends_on"
    found = await store.reads.job(TENANT, stored.job_id)
    assert (found.args, found.next_run, found.version) == (b'{"n": 1}', stored.next_run, 1)
    assert await (await hand(store)).claim() == []
    await store.control.cancel_job(TENANT, stored.job_id)
    dependent = await submit(store, child(parent.job_id, key="k", args=b'{"n": 2}'))
    assert dependent.created and await state(store, dependent.job_id) is RunState.BLOCKED


async def test_two_jobs_never_wait_for_each_other(store: Store) -> None:
    first = await submit(store, job(key="k"))
    second = await submit(store, child(first.job_id))
    with pytest.raises(Conflict, match="other jobs depend on") as refused:
        await submit(store, child(second.job_id, key="k", args=b'{"n": 2}'))
    assert refused.value.field == "depends_on"
    worker = await hand(store)
    for answer in (first, second):
        run = await worker.claim_one()
        assert run.job_id == answer.job_id
        await worker.succeed(run)
        await settle(store)


@pytest.mark.parametrize("delay", [timedelta(seconds=5), HOUR], ids=["waiting", "stored"])
async def test_a_job_that_others_wait_for_does_not_become_one_that_repeats(
    store: Store, time: Time, delay: timedelta
) -> None:
    parent = await submit(store, job(Once(delay=delay), key="k"))
    dependent = await submit(store, child(parent.job_id))
    with pytest.raises(Conflict, match="other jobs depend on"):
        await submit(store, job(Every(HOUR), key="k"))
    if delay == HOUR:
        with pytest.raises(Conflict, match="other jobs depend on"):
            await store.control.edit_job(TENANT, parent.job_id, Changes(schedule=Every(HOUR)))
    time.advance(hours=1)
    await fire(store)
    worker = await hand(store)
    run = await worker.claim_one()
    assert run.job_id == parent.job_id
    await worker.succeed(run)
    await settle(store)
    assert await state(store, dependent.job_id) is RunState.PENDING


async def test_a_job_whose_children_are_over_may_become_one_that_repeats(store: Store) -> None:
    parent = await submit(store, job(Once(delay=HOUR)))
    dependent = await submit(store, child(parent.job_id))
    await store.control.cancel_job(TENANT, dependent.job_id)
    assert (await store.control.edit_job(TENANT, parent.job_id, Changes(schedule=Every(HOUR)))).version == 2


async def test_what_cannot_be_waited_for_is_refused(store: Store) -> None:
    recurring = await submit(store, job(Every(HOUR)))
    foreign = await store.intake.submit(STRANGER, [job(tenant_id=STRANGER)])
    deleted = await submit(store, job())
    await store.replay.delete_job(TENANT, deleted.job_id)
    for parent in (recurring.job_id, foreign[0].job_id, deleted.job_id, new_id()):
        before = await store.reads.counts()
        with pytest.raises(InvalidInput) as refused:
            await submit(store, child(parent))
        assert refused.value.field == "depends_on"
        assert await store.reads.counts() == before


async def test_children_that_come_while_their_parents_end_never_park(store: Store, other: Store) -> None:
    """Intake and completion race: whichever is first, no child waits for ever."""
    worker = await hand(store)
    for _ in range(15):
        parents = [(await submit(store, job())).job_id for _ in range(4)]
        claimed = await worker.claim()
        assert {run.job_id for run in claimed} == set(parents)
        children, _ = await asyncio.gather(
            asyncio.gather(*(submit(other, child(*parents[:size])) for size in range(1, 5))),
            asyncio.gather(*(worker.succeed(run) for run in claimed)),
        )
        await settle(store)
        freed = await worker.claim()
        assert {run.job_id for run in freed} == {item.job_id for item in children}
        await worker.succeed(*freed)


async def test_any_number_of_settlers_hand_on_once(store: Store, other: Store) -> None:
    worker = await hand(store)
    parents = [(await submit(store, job())).job_id for _ in range(20)]
    children = [(await submit(store, child(*parents[start:], rule=ANY_END))).job_id for start in range(20)]
    claimed = await worker.claim()
    await asyncio.gather(*(worker.complete(failed(run)) for run in claimed))

    async def settle_small(one: Store) -> None:
        for _ in range(40):
            await one.graphs.settle(3)

    await asyncio.gather(settle_small(store), settle_small(other), settle_small(store))
    assert {run.job_id for run in await worker.claim()} == set(children)


async def test_a_replay_does_not_count_twice(store: Store) -> None:
    worker = await hand(store)
    one, two = (await submit(store, job())).job_id, (await submit(store, job())).job_id
    dependent = await submit(store, child(one, two, rule=ANY_END))
    claimed = {run.job_id: run for run in await worker.claim()}
    await worker.fail(claimed[one])
    await settle(store)
    await store.replay.retry_run(TENANT, claimed[one].run_id, b"n")
    await worker.succeed(await worker.claim_one())
    await settle(store)
    assert await state(store, dependent.job_id) is RunState.BLOCKED
