"""Completing: fenced, counted, and kept in history."""

import asyncio
from datetime import timedelta

import msgspec
import pytest

from duetime.errors import StoreRejected
from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Completion, RunNote
from duetime.model.failure import FailureClass
from duetime.model.job import JobState
from duetime.model.retry import Verdict
from duetime.model.run import Event, ImpossibleTransition, RunState
from duetime.store.protocol.store import Completed, Store
from duetime.store.rules import completions
from tests.contract.hands import (
    FAIL,
    TENANT,
    cancelled,
    failed,
    hand,
    job,
    retried,
    snoozed,
    submit,
    succeeded,
)
from tests.contract.worlds import Time


async def test_success_moves_the_run_to_history(store: Store, time: Time) -> None:
    worker = await hand(store)
    submitted = await submit(store, job(args=b"[1]"))
    time.advance(seconds=1)
    claimed = await worker.claim_one()
    time.advance(seconds=2)
    assert await worker.succeed(claimed) == Completed()
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.attempt, run.lost, run.fence, run.args) == (RunState.SUCCEEDED, 1, 0, 1, b"[1]")
    assert (run.due_at, run.started_at, run.finished_at) == (
        claimed.due_at,
        time.now - timedelta(seconds=2),
        time.now,
    )
    assert (run.worker_id, run.lease_until, run.result, run.error) == (worker.id, None, None, None)
    (attempt,) = run.attempts
    assert (attempt.attempt, attempt.fence, attempt.state) == (1, 1, AttemptState.SUCCEEDED)
    assert (attempt.worker_id, attempt.finished_at) == (worker.id, time.now)
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (0, 1, 0)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run, found.args) == (JobState.ENDED, None, b"[1]")


async def test_a_run_that_is_snoozed_for_ever_keeps_few_logs(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completions, "LOGGED_ATTEMPTS", 2)
    await submit(store, job())
    worker = await hand(store)
    for _ in range(4):
        run = await worker.claim_one()
        await worker.complete(msgspec.structs.replace(snoozed(run, 0), logs=b"line"))
    run = await worker.claim_one()
    await worker.complete(msgspec.structs.replace(succeeded(run), logs=b"line"))
    found = await store.reads.run(TENANT, run.run_id)
    assert [attempt.logs for attempt in found.attempts] == [b"line", b"line", None, None, b"line"]


async def test_results_and_logs_are_kept(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job(), job(), job())
    runs = await worker.claim()
    completions = [
        msgspec.structs.replace(succeeded(run), result=result, logs=logs)
        for run, result, logs in zip(runs, (b'"a"', None, b""), (None, b"line\n", b"\x00\xff"), strict=True)
    ]
    assert await worker.complete(*completions) == Completed()
    found = [await store.reads.run(TENANT, run.run_id) for run in runs]
    assert [run.result for run in found] == [b'"a"', None, b""]
    assert [run.attempts[0].logs for run in found] == [None, b"line\n", b"\x00\xff"]


async def test_a_spent_run_fails_into_the_dead_letters(store: Store, time: Time) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    claimed = await worker.claim_one()
    assert await worker.fail(claimed) == Completed()
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.failure, run.error) == (RunState.FAILED, FailureClass.ERROR, "ValueError: no")
    assert [attempt.state for attempt in run.attempts] == [AttemptState.FAILED]
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (0, 1, 1)
    assert (await store.reads.job(TENANT, submitted.job_id)).state is JobState.ENDED


async def test_a_run_may_cancel_itself(store: Store) -> None:
    worker = await hand(store)
    submitted = await submit(store, job())
    claimed = await worker.claim_one()
    await worker.complete(cancelled(claimed))
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.failure) == (RunState.CANCELLED, FailureClass.CANCELLED)
    assert (await store.reads.job(TENANT, submitted.job_id)).state is JobState.CANCELLED
    assert (await store.reads.counts()).dead_letters == 0


async def test_a_retry_waits_again_and_counts_the_attempt(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=1))
    submitted = await submit(store, job())
    claimed = await worker.claim_one()
    time.advance(seconds=2)
    assert await worker.retry(claimed, 60) == Completed()
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.attempt, run.lost, run.fence) == (RunState.RETRYING, 1, 0, 1)
    assert (run.due_at, run.ready_at) == (claimed.due_at, time.now + timedelta(seconds=60))
    assert (run.worker_id, run.started_at, run.finished_at) == (None, None, None)
    assert (run.failure, run.error) == (FailureClass.ERROR, "ValueError: not yet")
    (attempt,) = run.attempts
    assert (attempt.attempt, attempt.fence, attempt.state) == (1, 1, AttemptState.FAILED)
    assert (attempt.started_at, attempt.finished_at) == (claimed.started_at, time.now)
    assert (await store.reads.job(TENANT, submitted.job_id)).next_run == run.ready_at
    time.advance(seconds=59)
    assert await worker.claim() == []
    time.advance(seconds=1)
    again = await worker.claim_one()
    assert (again.attempt, again.fence, again.due_at) == (2, 2, claimed.due_at)
    assert again.ready_at == time.now
    await worker.succeed(again)
    ended = await store.reads.run(TENANT, claimed.run_id)
    assert (ended.state, ended.attempt) == (RunState.SUCCEEDED, 2)
    assert [(item.attempt, item.state) for item in ended.attempts] == [
        (1, AttemptState.FAILED),
        (2, AttemptState.SUCCEEDED),
    ]
    assert (await store.reads.counts()).history == 2


async def test_a_snooze_spends_nothing(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    claimed = await worker.claim_one()
    assert await worker.snooze(claimed, 5) == Completed()
    run = await store.reads.run(TENANT, claimed.run_id)
    assert (run.state, run.attempt, run.lost, run.fence) == (RunState.PENDING, 0, 0, 1)
    assert (run.due_at, run.ready_at) == (claimed.due_at, time.now + timedelta(seconds=5))
    (attempt,) = run.attempts
    assert (attempt.attempt, attempt.fence, attempt.state) == (1, 1, AttemptState.SNOOZED)
    time.advance(seconds=5)
    again = await worker.claim_one()
    assert (again.attempt, again.fence) == (1, 2)
    await worker.retry(again)
    assert (await store.reads.run(TENANT, claimed.run_id)).state is RunState.RETRYING


async def test_handing_back_is_as_if_it_had_not_been_claimed(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(), job())
    first, second = await worker.claim()
    time.advance(seconds=3)
    pairs = [(first.run_id, first.fence), (second.run_id, second.fence + 1), (new_id(), 1)]
    assert await store.completions.hand_back(worker.id, pairs) == 1
    run = await store.reads.run(TENANT, first.run_id)
    assert (run.state, run.attempt, run.lost, run.fence) == (RunState.PENDING, 0, 0, 1)
    assert (run.due_at, run.ready_at, run.attempts) == (first.due_at, time.now, ())
    assert (await store.reads.run(TENANT, second.run_id)).state is RunState.RUNNING
    assert await store.completions.hand_back(worker.id, [(first.run_id, first.fence)]) == 0
    assert await store.completions.hand_back(worker.id, []) == 0
    assert (await store.reads.counts()).history == 0
    again = await worker.claim_one()
    assert (again.run_id, again.attempt, again.fence) == (first.run_id, 1, 2)


async def test_handing_back_after_a_retry_keeps_what_was_spent(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    await worker.retry(await worker.claim_one())
    again = await worker.claim_one()
    await store.completions.hand_back(worker.id, [(again.run_id, again.fence)])
    run = await store.reads.run(TENANT, again.run_id)
    assert (run.state, run.attempt, run.fence) == (RunState.RETRYING, 1, 2)


@pytest.mark.parametrize("what", [succeeded, failed, retried, snoozed, cancelled])
async def test_a_stale_completion_is_refused(store: Store, what: object) -> None:
    """Only the holder of the newest fence may complete: not an old claim, not another worker, not twice."""
    assert callable(what)
    worker, other = await hand(store), await hand(store)
    await submit(store, job())
    old = await worker.claim_one()
    await store.completions.hand_back(worker.id, [(old.run_id, old.fence)])
    assert (await worker.complete(what(old))).refused == {old.run_id}
    new = await worker.claim_one()
    before = await store.reads.run(TENANT, new.run_id)
    assert (await worker.complete(what(old))).refused == {old.run_id}
    assert (await other.complete(what(new))).refused == {new.run_id}
    assert (await worker.complete(what(msgspec.structs.replace(new, fence=new.fence + 1)))).refused == {new.run_id}
    assert await store.reads.run(TENANT, new.run_id) == before
    assert (await worker.complete(what(new))).refused == frozenset()
    assert (await worker.complete(what(new))).refused == {new.run_id}
    unknown = msgspec.structs.replace(new, run_id=new_id())
    assert (await worker.complete(what(unknown))).refused == {unknown.run_id}


async def test_a_refusal_says_whether_the_run_has_ended(store: Store) -> None:
    """A task may have completed it in its own transaction."""
    await submit(store, job(), job())
    worker, other = await hand(store), await hand(store)
    ended, held = await worker.claim(2)
    await worker.succeed(ended)
    for what in (succeeded, failed):
        answer = await other.complete(what(ended), what(held))
        assert (answer.refused, answer.over) == ({ended.run_id, held.run_id}, {ended.run_id})


async def test_of_a_mixed_batch_only_the_stale_ones_are_refused(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(10)))
    runs = await worker.claim()
    await store.completions.hand_back(worker.id, [(runs[n].run_id, runs[n].fence) for n in (0, 3, 6)])
    done = await worker.complete(
        succeeded(runs[0]),
        succeeded(runs[1]),
        succeeded(runs[2], result=b"2"),
        failed(runs[3]),
        failed(runs[4]),
        retried(runs[5], 5),
        retried(runs[6], 5),
        snoozed(runs[7], 7),
        cancelled(runs[8]),
    )
    assert done.refused == {runs[0].run_id, runs[3].run_id, runs[6].run_id}
    states = [(await store.reads.run(TENANT, run.run_id)).state for run in runs]
    assert states == [
        RunState.PENDING,
        RunState.SUCCEEDED,
        RunState.SUCCEEDED,
        RunState.PENDING,
        RunState.FAILED,
        RunState.RETRYING,
        RunState.PENDING,
        RunState.PENDING,
        RunState.CANCELLED,
        RunState.RUNNING,
    ]
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (6, 6, 1)


async def test_of_plain_successes_only_the_stale_ones_are_refused(store: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(4)))
    runs = await worker.claim()
    await worker.succeed(runs[1])
    assert (await worker.succeed(*runs)).refused == {runs[1].run_id}
    assert (await store.reads.counts()).history == 4


async def test_plain_successes_of_a_first_and_of_a_later_claim_end_together(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job(), job())
    first, second = await worker.claim()
    await worker.retry(first)
    again = await worker.claim_one()
    assert again.fence != second.fence
    stale = msgspec.structs.replace(again, fence=again.fence + 1)
    assert await worker.succeed(stale, second) == Completed(frozenset({again.run_id})), "each is known by its own fence"
    await submit(store, job())
    third = await worker.claim_one()
    assert await worker.succeed(again, third) == Completed()
    assert (await store.reads.counts()).runs == 0


async def test_a_run_that_stands_in_a_batch_with_two_fences_can_still_be_completed(store: Store) -> None:
    """No worker of ours says such a thing. By the right one alone it ends, if it has not yet."""
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    stale = msgspec.structs.replace(run, fence=run.fence + 1)
    await worker.succeed(stale, run)
    await worker.succeed(run)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SUCCEEDED


async def test_a_run_that_stands_twice_in_a_batch_ends_once(store: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(3)))
    first, second, third = await worker.claim()
    assert await worker.succeed(first, second, first) == Completed()
    assert await worker.complete(failed(third), failed(third)) == Completed()
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (0, 3, 1)


async def test_a_cancelled_run_is_not_tried_again(store: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(4)))
    runs = await worker.claim()
    for run in runs:
        await store.control.cancel_run(TENANT, run.run_id)
    done = await worker.complete(retried(runs[0], 5), snoozed(runs[1], 5), succeeded(runs[2]), failed(runs[3]))
    assert done == Completed()
    found = [await store.reads.run(TENANT, run.run_id) for run in runs]
    assert [run.state for run in found] == [
        RunState.CANCELLED,
        RunState.CANCELLED,
        RunState.SUCCEEDED,
        RunState.FAILED,
    ]
    assert [attempt.state for run in found for attempt in run.attempts] == [
        AttemptState.CANCELLED,
        AttemptState.CANCELLED,
        AttemptState.SUCCEEDED,
        AttemptState.FAILED,
    ]


async def test_a_cancelled_run_that_is_handed_back_ends(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    await store.control.cancel_run(TENANT, run.run_id)
    assert await store.completions.hand_back(worker.id, [(run.run_id, run.fence)]) == 1
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.state, found.attempt, found.attempts) == (RunState.CANCELLED, 0, ())
    assert await worker.claim() == []


async def test_a_transition_that_does_not_exist_is_not_written(store: Store) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    impossible = Completion(run.run_id, run.fence, Verdict(Event.UNBLOCK), AttemptState.SKIPPED)
    with pytest.raises(ImpossibleTransition):
        await worker.complete(impossible)
    waiting = Completion(run.run_id, run.fence, Verdict(Event.CLAIM, timedelta(0)), AttemptState.FAILED)
    with pytest.raises(ImpossibleTransition):
        await worker.complete(waiting)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.RUNNING


async def test_one_poisoned_completion_is_refused_and_the_batch_can_be_split(store: Store) -> None:
    """A batch takes effect as a whole or not at all; its sender can find the row at fault."""
    worker = await hand(store)
    await submit(store, *(job() for _ in range(3)))
    first, second, third = await worker.claim()
    poison = Completion(second.run_id, second.fence, FAIL, AttemptState.FAILED, FailureClass.ERROR, "half \ud800")
    with pytest.raises(StoreRejected):
        await worker.complete(succeeded(first), poison, retried(third))
    counts = await store.reads.counts()
    assert (counts.runs, counts.history, counts.dead_letters) == (3, 0, 0)
    assert await worker.complete(succeeded(first), retried(third)) == Completed()
    with pytest.raises(StoreRejected):
        await worker.complete(poison)


async def test_closed_claims_are_forgotten(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job(), job())
    first = await worker.claim(1)
    second = await worker.claim(1)
    await worker.complete(succeeded(first[0]), closed=[1])
    await worker.complete(retried(second[0]), closed=[2])
    worker.claim_no = 1
    (again,) = await worker.claim_again()
    assert again.run_id == second[0].run_id


async def test_closing_claims_alone_is_fine(store: Store) -> None:
    worker = await hand(store)
    assert await worker.complete(closed=[1, 2, 3]) == Completed()
    assert await worker.complete() == Completed()


async def test_notes_are_remembered_while_it_runs_and_fenced(store: Store) -> None:
    worker, other = await hand(store), await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    assert (
        await store.completions.note(worker.id, [RunNote(run.run_id, 1, 0.25, "a quarter", b'{"page":3}')])
        == Completed()
    )
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.progress, found.message) == (0.25, "a quarter")
    assert await store.completions.note(worker.id, [RunNote(run.run_id, 1, progress=0.5)]) == Completed()
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.progress, found.message) == (0.5, "a quarter")
    assert (await store.completions.note(worker.id, [RunNote(run.run_id, 2, 0.75)])).refused == {run.run_id}
    assert (await store.completions.note(other.id, [RunNote(run.run_id, 1, 0.75)])).refused == {run.run_id}
    assert await store.completions.note(worker.id, []) == Completed()
    await worker.retry(run)
    again = await worker.claim_one()
    assert again.checkpoint == b'{"page":3}'
    found = await store.reads.run(TENANT, run.run_id)
    assert (found.progress, found.message) == (None, None)


async def test_what_is_logged_is_shown_while_it_runs(store: Store, time: Time) -> None:
    worker = await hand(store)
    await submit(store, job())
    run = await worker.claim_one()
    for lines in (b'{"lines":[1]}', b'{"lines":[1,2]}'):
        await store.completions.note(worker.id, [RunNote(run.run_id, 1, logs=lines)])
        assert (await store.reads.run(TENANT, run.run_id)).logs == lines
    await store.completions.note(worker.id, [RunNote(run.run_id, 1, progress=0.5)])
    assert (await store.reads.run(TENANT, run.run_id)).logs == lines
    assert (await store.completions.note(worker.id, [RunNote(run.run_id, 2, logs=b"[]")])).refused == {run.run_id}
    await worker.retry(run)
    assert (await store.reads.run(TENANT, run.run_id)).logs is None
    again = await worker.claim_one()
    assert (await store.reads.run(TENANT, run.run_id)).logs is None
    await store.completions.note(worker.id, [RunNote(run.run_id, 2, logs=b'{"lines":[3]}')])
    time.advance(minutes=2)
    await store.pruning.prune(timedelta(days=30), timedelta(days=30))
    assert (await store.reads.run(TENANT, run.run_id)).logs == b'{"lines":[3]}'
    await worker.succeed(again)
    await store.pruning.prune(timedelta(days=30), timedelta(days=30))
    assert (await store.reads.run(TENANT, run.run_id)).logs is None


async def test_one_run_completed_at_once_from_two_sides_ends_once(store: Store, other: Store) -> None:
    worker = await hand(store)
    await submit(store, *(job() for _ in range(30)))
    runs = await worker.claim()
    done = await asyncio.gather(
        *(
            (store, other)[turn % 2].completions.complete(worker.id, [succeeded(run), retried(runs[-1 - place], 60)])
            for place, run in enumerate(runs[:15])
            for turn in range(2)
        )
    )
    assert sum(len(answer.refused) for answer in done) == 30
    assert sum(30 - len(answer.refused) for answer in done) == 30 * 30 - 30
    counts = await store.reads.counts()
    assert (counts.runs, counts.history) == (15, 30)
