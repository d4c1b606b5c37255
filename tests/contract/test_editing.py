"""Editing a job, by its id or under its key: what changes, what stays, and what becomes of runs on their way."""

from datetime import timedelta
from typing import Any

import pytest

from duetime.errors import Conflict, InvalidInput, NotFound, StaleVersion
from duetime.model.edit import Changes
from duetime.model.firing import SetAside
from duetime.model.job import JobState, Options, encode_options
from duetime.model.lane import Tier
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Every, Once
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time

EVERY_MINUTE = Cron("* * * * *")
EVERY_HOUR = Cron("0 * * * *")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NEW_ARGS = Changes(args=b"[2]")
DECIDED_WHEN_DUE = encode_options(Options(overlap="skip"))


async def edit(store: Store, job_id: Any, **changes: Any) -> Any:
    return await store.control.edit_job(TENANT, job_id, Changes(**changes))


async def test_an_edit_changes_what_it_names_and_nothing_else(store: Store, time: Time) -> None:
    options = encode_options(Options(tags=("a",), jitter=5.0))
    submitted = await submit(store, job(EVERY_HOUR, args=b"[1]", options=options, timeout_ms=7_000))
    time.advance(minutes=5)
    changes = Changes(args=b"[2]", options={"jitter": 9.0}, queue="slow", tier=Tier.LOW, timeout_ms=None)
    edited = await store.control.edit_job(TENANT, submitted.job_id, changes)
    assert edited == await store.reads.job(TENANT, submitted.job_id)
    assert (edited.args, edited.queue, edited.tier, edited.timeout_ms) == (b"[2]", "slow", Tier.LOW, None)
    assert edited.options == Options(tags=("a",), jitter=9.0)
    assert (edited.task, edited.schedule, edited.next_run, edited.created_at) == (
        "greet",
        EVERY_HOUR,
        START + HOUR,
        START,
    )
    assert edited.version == 2


async def test_every_edit_raises_the_version_and_one_that_changes_nothing_does_not(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_HOUR))
    assert (await edit(store, submitted.job_id, args=b"[2]")).version == 2
    assert (await edit(store, submitted.job_id, args=b"[2]", schedule=EVERY_HOUR)).version == 2
    assert (await edit(store, submitted.job_id, schedule=EVERY_MINUTE)).version == 3


async def test_an_edit_of_a_version_that_is_not_the_current_one_is_refused(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_HOUR))
    assert (await store.control.edit_job(TENANT, submitted.job_id, NEW_ARGS, version=1)).version == 2
    with pytest.raises(StaleVersion, match="version 2") as caught:
        await store.control.edit_job(TENANT, submitted.job_id, Changes(args=b"[3]"), version=1)
    assert caught.value.field == "version"
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.version, found.args) == (2, b"[2]")


async def test_what_cannot_be_edited(store: Store, time: Time) -> None:
    due = await submit(store, job())
    with pytest.raises(Conflict, match="due"):
        await store.control.edit_job(TENANT, due.job_id, NEW_ARGS)
    over = await submit(store, job(EVERY_MINUTE))
    await store.control.cancel_job(TENANT, over.job_id)
    with pytest.raises(Conflict, match="ended"):
        await store.control.edit_job(TENANT, over.job_id, NEW_ARGS)
    mine = await submit(store, job(EVERY_MINUTE))
    with pytest.raises(NotFound):
        await store.control.edit_job(STRANGER, mine.job_id, NEW_ARGS)


async def test_a_new_schedule_owes_nothing_for_its_past(store: Store, time: Time) -> None:
    """No scanner fired for half an hour; the edit drops what the old schedule owes and starts the new one from now."""
    submitted = await submit(store, job(EVERY_HOUR))
    time.advance(minutes=90)
    edited = await edit(store, submitted.job_id, schedule=Cron("*/5 * * * *"))
    assert edited.next_run == START + timedelta(minutes=95)
    assert (await fire(store)).fired == 0
    time.advance(minutes=5)
    await fire(store)
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [
        START + timedelta(minutes=95)
    ]


async def test_a_new_schedule_withdraws_the_waiting_runs_of_the_old_one(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, options=encode_options(Options(misfire=Misfire("all")))))
    time.advance(minutes=3, seconds=50)
    await fire(store)
    await fire(store)
    assert (await store.reads.job(TENANT, submitted.job_id)).made == 4, "three that were missed, and one ahead"
    edited = await edit(store, submitted.job_id, schedule=EVERY_HOUR)
    assert await store.reads.runs_of_job(TENANT, submitted.job_id) == []
    assert (edited.made, edited.next_run) == (0, START + HOUR)
    assert (await store.reads.counts()).history == 0, "to be withdrawn is no end"


async def test_the_same_schedule_keeps_its_rhythm(store: Store, time: Time) -> None:
    """An interval that is asked for again is not counted from the second time that it is asked for."""
    submitted = await submit(store, job(Every(HOUR), key="k"))
    time.advance(minutes=20)
    assert (await edit(store, submitted.job_id, schedule=Every(HOUR), args=b"[2]")).next_run == START + HOUR
    again = await submit(store, job(Every(HOUR), key="k", args=b"[3]"))
    assert (again.job_id, again.next_run) == (submitted.job_id, START + HOUR)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.version, found.args, found.next_run) == (3, b"[3]", START + HOUR)
    changed = await edit(store, submitted.job_id, schedule=Every(2 * HOUR))
    assert changed.next_run == START + timedelta(minutes=20) + 2 * HOUR


async def test_which_arguments_runs_use_after_an_edit(store: Store, time: Time) -> None:
    """Pending runs use the new ones. Running, retrying and triggered runs keep those that they started with."""
    submitted = await submit(store, job(EVERY_MINUTE, args=b'["old"]'))
    worker = await hand(store, timedelta(days=1))
    time.advance(minutes=1)
    await fire(store)
    retrying = await worker.claim_one()
    await worker.retry(retrying, seconds=3600)
    time.advance(minutes=1)
    await fire(store)
    running = await worker.claim_one()
    asked_for = await store.control.trigger_job(TENANT, submitted.job_id, b"x")
    time.advance(seconds=50)
    await fire(store)
    await store.control.edit_job(TENANT, submitted.job_id, Changes(args=b'["new"]', timeout_ms=5_000))
    runs = {run.id: run for run in await store.reads.runs_of_job(TENANT, submitted.job_id)}
    assert {run_id: run.state for run_id, run in runs.items()} | {
        retrying.run_id: RunState.RETRYING,
        running.run_id: RunState.RUNNING,
        asked_for.id: RunState.PENDING,
    } == {run_id: run.state for run_id, run in runs.items()}
    (pending,) = set(runs) - {retrying.run_id, running.run_id, asked_for.id}
    assert runs[pending].args == b'["new"]'
    assert {runs[run_id].args for run_id in (retrying.run_id, running.run_id, asked_for.id)} == {b'["old"]'}
    time.advance(hours=1)
    claimed = {run.run_id: run for run in await worker.claim()}
    assert (claimed[retrying.run_id].args, claimed[retrying.run_id].timeout_ms) == (b'["old"]', None)
    assert (claimed[pending].args, claimed[pending].timeout_ms) == (b'["new"]', 5_000)
    assert claimed[asked_for.id].args == b'["old"]'


async def test_a_waiting_run_moves_to_the_lane_of_its_edited_job(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(minutes=1, seconds=30)
    await fire(store)
    await edit(store, submitted.job_id, queue="slow", tier=Tier.HIGH)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert (run.queue, run.tier, run.due_at, run.ready_at) == ("slow", Tier.HIGH, START + MINUTE, time.now)
    claimed = await (await hand(store)).claim_one()
    lanes = {lane.id: lane.key for lane in await store.claims.lanes()}
    assert lanes[claimed.lane_id].queue == "slow"


async def test_waiting_runs_come_under_the_limit_that_an_edit_gives_them(store: Store, time: Time) -> None:
    jobs = [(await submit(store, job(EVERY_MINUTE))).job_id for _ in range(3)]
    time.advance(minutes=1)
    await fire(store)
    for job_id in jobs:
        await edit(store, job_id, options={"concurrency_key": "one"})
    worker = await hand(store)
    (first,) = await worker.claim()
    assert await worker.claim() == []
    for job_id in jobs:
        await edit(store, job_id, options={"concurrency_key": None})
    assert {run.job_id for run in (first, *await worker.claim())} == set(jobs)


async def test_an_edit_of_a_paused_job_leaves_it_paused(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, key="k"))
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(minutes=5)
    await submit(store, job(EVERY_HOUR, key="k"))
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.next_run, found.version) == (JobState.PAUSED, START + HOUR, 2)
    time.advance(hours=2, minutes=5)
    assert (await fire(store)).fired == 0
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert sorted((run.due_at, run.state) for run in runs) == [
        (START + HOUR, RunState.SKIPPED),
        (START + 2 * HOUR, RunState.PENDING),
    ], "what was missed since the edit is for the misfire policy"


async def test_a_delayed_job_that_is_paused_stays_so_when_it_is_edited(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=HOUR), key="k"))
    await store.control.pause_job(TENANT, submitted.job_id)
    await submit(store, job(key="k", args=b"[2]"))
    time.advance(minutes=1)
    assert (await fire(store)).fired == 0
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    assert [run.args for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [b"[2]"]


@pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
async def test_counts_go_on_through_an_edit(store: Store, time: Time, by_key: bool) -> None:
    options = encode_options(Options(misfire=Misfire("latest"), max_runs=3))
    submitted = await submit(store, job(EVERY_MINUTE, key="k", options=options))
    worker = await hand(store, timedelta(days=1))
    time.advance(minutes=5)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    if by_key:
        await submit(store, job(EVERY_HOUR, key="k", options=options))
    else:
        await edit(store, submitted.job_id, schedule=EVERY_HOUR)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.made, found.missed) == (1, 4)
    for _ in range(4):
        time.advance(hours=1)
        await fire(store)
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.made, found.missed) == (JobState.ENDED, 3, 4), "max_runs counts on, and ends it"


async def test_a_job_that_becomes_one_to_decide_when_due_takes_back_what_was_made_ahead(
    store: Store, time: Time
) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(seconds=50)
    await fire(store)
    edited = await edit(store, submitted.job_id, options={"overlap": "skip"})
    assert (edited.next_run, edited.made) == (START + MINUTE, 0)
    assert (await store.reads.counts()).runs == 0
    assert (await fire(store)).fired == 0
    time.advance(seconds=10)
    assert (await fire(store)).fired == 1
    edited = await edit(store, submitted.job_id, options={"overlap": "allow"})
    time.advance(seconds=50)
    assert (await fire(store)).fired == 1, "it is fired ahead again"
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, submitted.job_id)] == [
        START + 2 * MINUTE,
        START + MINUTE,
    ]


async def test_a_schedule_without_an_occurrence_is_refused_and_changes_nothing(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, key="k"))
    over = Cron("* * * * *", end_at=START - HOUR)
    before = await store.reads.job(TENANT, submitted.job_id)
    for attempt in (edit(store, submitted.job_id, schedule=over), submit(store, job(over, key="k"))):
        with pytest.raises(InvalidInput, match="no occurrence left"):
            await attempt
    assert await store.reads.job(TENANT, submitted.job_id) == before
    time.advance(minutes=1)
    assert (await fire(store)).fired == 1


async def test_a_job_that_was_set_aside_can_be_mended(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(minutes=1)
    await store.firing.fire_due(10, lambda due, now: [SetAside(due[0].job_id, "its zone is gone")])
    edited = await edit(store, submitted.job_id, schedule=EVERY_HOUR)
    assert (edited.state, edited.problem, edited.next_run) == (JobState.PAUSED, None, START + HOUR)
    assert (await store.control.resume_job(TENANT, submitted.job_id)).state is JobState.ACTIVE
    time.advance(hours=1)
    assert (await fire(store)).fired == 1


@pytest.mark.parametrize("args", [b"[1]", b"[2]"], ids=["the same request", "another one"])
@pytest.mark.parametrize("options", [None, DECIDED_WHEN_DUE], ids=["fired ahead", "decided when due"])
async def test_the_answer_of_a_job_that_was_set_aside_names_no_run(
    store: Store, time: Time, args: bytes, options: bytes | None
) -> None:
    submitted = await submit(store, job(EVERY_MINUTE, key="k", args=b"[1]"))
    time.advance(minutes=1)
    await store.firing.fire_due(10, lambda due, now: [SetAside(due[0].job_id, "its zone is gone")])
    again = await submit(store, job(EVERY_MINUTE, key="k", args=args, options=options))
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (again.job_id, again.next_run, again.run_id) == (submitted.job_id, None, None)
    assert (found.state, found.problem, found.next_run) == (JobState.PAUSED, "its zone is gone", None)


async def test_an_edit_by_id_stays_until_the_request_under_the_key_changes(store: Store, time: Time) -> None:
    submitted = await submit(store, job(EVERY_HOUR, key="k", args=b"[1]"))
    await edit(store, submitted.job_id, args=b"[9]")
    again = await submit(store, job(EVERY_HOUR, key="k", args=b"[1]"))
    assert again.job_id == submitted.job_id
    assert (await store.reads.job(TENANT, submitted.job_id)).args == b"[9]"
    await submit(store, job(EVERY_HOUR, key="k", args=b"[2]"))
    assert (await store.reads.job(TENANT, submitted.job_id)).args == b"[2]"


async def test_a_one_off_that_is_moved_into_the_past_runs_now_and_says_so(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=HOUR), key="k"))
    answer = await submit(store, job(Once(at=START - HOUR), key="k"))
    assert (answer.job_id, answer.next_run) == (submitted.job_id, START)
    assert "1h in the past" in (answer.note or "")
    await fire(store)
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id)) == 1


async def test_a_one_off_is_moved_to_another_time(store: Store, time: Time) -> None:
    submitted = await submit(store, job(Once(delay=HOUR)))
    edited = await edit(store, submitted.job_id, schedule=Once(at=START + MINUTE))
    assert edited.next_run == START + MINUTE
    time.advance(minutes=1)
    await fire(store)
    (run,) = await store.reads.runs_of_job(TENANT, submitted.job_id)
    assert run.due_at == START + MINUTE
    assert (await store.reads.counts()).jobs == 0
