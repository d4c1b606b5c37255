"""A pause withdraws every run that has not started and that no worker holds, also when it comes back later; resuming
applies the misfire policy to them, each once."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from random import Random
from uuid import UUID

import pytest

from duetime.ids import run_id
from duetime.model.attempt import Claimed, RunNote
from duetime.model.edit import Changes
from duetime.model.job import JobState, Options, encode_options
from duetime.model.policy import MOST_CAUGHT_UP, Misfire, Overlap
from duetime.model.run import RunState
from duetime.model.schedule import After, Cron, Every, Once, make_exclusion
from duetime.store.protocol.store import Store
from tests.contract.hands import LEASE, TENANT, Hand, fire, hand, job, reap, submit
from tests.contract.worlds import START, Time, World

MINUTE = timedelta(minutes=1)
EVERY_MINUTE = Cron("* * * * *")


async def backlog(store: Store, time: Time, minutes: int = 30, **options: object) -> UUID:
    """A job of every minute that no worker takes runs of, for so long."""
    said = encode_options(Options(**options))  # type: ignore[arg-type]
    submitted = await submit(store, job(Every(MINUTE), options=said))
    for _ in range(minutes):
        time.advance(minutes=1)
        await fire(store)
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id, 1000)) == minutes
    return submitted.job_id


async def states(store: Store, job_id: UUID) -> dict[int, RunState]:
    """The runs of a job by the minute of their occurrence, each of which there is once."""
    runs = await store.reads.runs_of_job(TENANT, job_id, 2000)
    found = {int((run.due_at - START) / MINUTE): run.state for run in runs}
    assert len(found) == len(runs)
    return found


@pytest.mark.parametrize("jitter", [0.0, 3600.0])
async def test_nothing_starts_while_a_job_is_paused(store: Store, time: Time, jitter: float) -> None:
    job_id = await backlog(store, time, jitter=jitter)
    worker = await hand(store, timedelta(hours=9))
    before = {run.id: run.due_at for run in await store.reads.runs_of_job(TENANT, job_id, 1000)}
    paused = await store.control.pause_job(TENANT, job_id)
    assert (paused.state, paused.made) == (JobState.PAUSED, 0)
    assert (await store.reads.counts()).runs == 0
    time.advance(hours=2)
    await fire(store)
    assert await worker.claim() == []
    await store.control.edit_job(TENANT, job_id, Changes(options={"misfire": Misfire("all", most=1000)}))
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    after = {run.id: run.due_at for run in await store.reads.runs_of_job(TENANT, job_id, 1000)}
    assert before.items() <= after.items(), "each of them is back, as it was"
    assert len(after) == 150
    assert (await store.reads.job(TENANT, job_id)).made == 150


@pytest.mark.parametrize(
    ("misfire", "made"),
    [(Misfire("all", most=1000), 30), (Misfire("all", most=7), 7), (Misfire("latest"), 1), (Misfire("skip", 5), 0)],
)
async def test_resuming_applies_the_misfire_policy_to_what_was_withdrawn(
    store: Store, time: Time, misfire: Misfire, made: int
) -> None:
    job_id = await backlog(store, time)
    await store.control.pause_job(TENANT, job_id)
    await store.control.edit_job(TENANT, job_id, Changes(options={"misfire": misfire}))
    time.advance(seconds=30)
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    found = await states(store, job_id)
    assert sorted(found) == list(range(1, 31))
    kept = [minute for minute, state in found.items() if state is RunState.PENDING]
    assert sorted(kept) == list(range(31 - made, 31))
    resumed = await store.reads.job(TENANT, job_id)
    assert (resumed.made, resumed.missed) == (made, 30 - made)
    assert (await fire(store)).seen == 0


async def hand_back(worker: Hand, run: Claimed) -> None:
    await worker.store.completions.hand_back(worker.id, [(run.run_id, run.fence)])


async def release(worker: Hand, run: Claimed) -> None:
    await worker.store.claims.release(worker.id, [worker.claim_no])


async def leave_unlisted(worker: Hand, run: Claimed) -> None:
    await worker.store.leases.renew(worker.id, timedelta(0), [])


GIVE_BACK = [hand_back, release, leave_unlisted]
"""How a run comes back that has not started."""


@pytest.mark.parametrize("give_back", GIVE_BACK)
async def test_what_was_claimed_and_given_back_before_a_pause_is_withdrawn(
    store: Store, time: Time, give_back: Callable[[Hand, Claimed], Awaitable[None]]
) -> None:
    job_id = await backlog(store, time, 3, misfire=Misfire("all"))
    worker = await hand(store, timedelta(hours=9))
    before = await worker.claim(2)
    time.advance(seconds=10)
    for run in before:
        await give_back(worker, run)
    assert (await store.control.pause_job(TENANT, job_id)).made == 0
    other = await hand(store, timedelta(hours=9))
    assert await other.claim() == []
    assert (await store.reads.counts()).runs == 0
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    after = {run.run_id: run.fence for run in await other.claim()}
    assert len(after) == 3
    assert {run.run_id: after[run.run_id] for run in before} == {run.run_id: run.fence + 1 for run in before}
    assert (await store.reads.job(TENANT, job_id)).made == 3


@pytest.mark.parametrize("give_back", GIVE_BACK)
@pytest.mark.parametrize(("misfire", "made"), [("all", 3), ("latest", 1)])
async def test_what_comes_back_unstarted_while_its_job_is_paused_is_withdrawn_then(
    store: Store, time: Time, give_back: Callable[[Hand, Claimed], Awaitable[None]], misfire: str, made: int
) -> None:
    job_id = await backlog(store, time, 3, misfire=Misfire(misfire))  # type: ignore[arg-type]
    worker, living = await hand(store, timedelta(hours=9)), await hand(store, timedelta(hours=9))
    (running,) = await living.claim(1)
    (held,) = await worker.claim(1)
    assert (await store.control.pause_job(TENANT, job_id)).made == 2
    time.advance(seconds=10)
    await give_back(worker, held)
    assert (await store.reads.job(TENANT, job_id)).made == 1
    assert await living.claim() == []
    assert list((await states(store, job_id)).values()) == [RunState.RUNNING]
    await give_back(worker, held)  # its answer was lost
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    found = await living.claim()
    assert len(found) == made - (misfire == "all")
    resumed = await store.reads.job(TENANT, job_id)
    assert (resumed.made, resumed.missed) == ((3, 0) if misfire == "all" else (2, 1))
    await living.succeed(running, *found)


async def test_a_late_report_of_a_claim_from_before_a_pause_touches_no_claim_after_it(store: Store, time: Time) -> None:
    """Its worker repeats it because the answer was lost, and holds the same run again by then."""
    job_id = await backlog(store, time, 1)
    worker = await hand(store, timedelta(hours=9))
    before = await worker.claim_one()
    await hand_back(worker, before)
    await store.control.pause_job(TENANT, job_id)
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    again = await worker.claim_one()
    assert again.run_id == before.run_id
    await hand_back(worker, before)
    assert await worker.claim() == []
    assert (await worker.succeed(before)).refused == {before.run_id}
    assert not (await worker.succeed(again)).refused


async def test_what_has_started_goes_on_while_its_job_is_paused(store: Store, time: Time) -> None:
    job_id = await backlog(store, time, 5)
    worker = await hand(store, timedelta(hours=9))
    dying = await hand(store)
    (lost,) = await dying.claim(1)
    snoozed, tried, saved = await worker.claim(3)
    await worker.snooze(snoozed)
    await worker.retry(tried)
    await store.completions.note(worker.id, [RunNote(saved.run_id, saved.fence, checkpoint=b"1")])
    await hand_back(worker, saved)
    await store.control.pause_job(TENANT, job_id)
    time.advance(seconds=LEASE.total_seconds() + 1)
    await reap(store)
    started = {snoozed.run_id, tried.run_id, saved.run_id, lost.run_id}
    assert {run.run_id for run in await (await hand(store)).claim()} == started


async def test_what_follows_another_job_and_comes_back_while_it_is_paused_is_skipped(store: Store, time: Time) -> None:
    first = await submit(store, job(EVERY_MINUTE))
    after = await submit(store, job(After(first.job_id), task="count"))
    worker = await hand(store, timedelta(hours=9))
    time.advance(minutes=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await store.graphs.settle(10)
    run = await worker.claim_one()
    await store.control.pause_job(TENANT, after.job_id)
    await hand_back(worker, run)
    assert await worker.claim() == []
    (found,) = await store.reads.runs_of_job(TENANT, after.job_id)
    assert (found.state, found.error) == (RunState.SKIPPED, "missed: its job was paused")
    paused = await store.reads.job(TENANT, after.job_id)
    assert (paused.made, paused.missed) == (0, 1)


@pytest.mark.parametrize("comes_back", ["before the pause", "during the pause"])
async def test_what_an_earlier_schedule_left_is_skipped_when_its_job_runs_once_now(
    store: Store, time: Time, comes_back: str
) -> None:
    made = await submit(store, job(Every(MINUTE), options=encode_options(Options(misfire=Misfire("all")))))
    worker = await hand(store, timedelta(hours=9))
    time.advance(minutes=1)
    await fire(store)
    run = await worker.claim_one()
    await store.control.edit_job(TENANT, made.job_id, Changes(schedule=Once(delay=timedelta(hours=1))))
    for step in ("back", "pause") if comes_back == "before the pause" else ("pause", "back"):
        if step == "back":
            await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
        else:
            await store.control.pause_job(TENANT, made.job_id)
    assert await worker.claim() == []
    await store.control.resume_job(TENANT, made.job_id)
    await fire(store)
    assert await worker.claim() == []
    await store.control.pause_job(TENANT, made.job_id)  # its run is due in an hour, and not made yet
    await store.control.resume_job(TENANT, made.job_id)
    assert (await store.reads.run(TENANT, run.run_id)).state is RunState.SKIPPED
    time.advance(hours=2)
    await fire(store)
    await worker.claim_one()


@pytest.mark.parametrize("paused", ["before", "after"])
async def test_what_comes_back_to_a_paused_job_without_a_day_left_does_not_begin(
    store: Store, time: Time, paused: str
) -> None:
    await store.calendars.set_calendar(TENANT, "holidays", ())
    schedule = Cron("0 12 * * *", exclude=make_exclusion(calendars=["holidays"]), end_at=START + timedelta(days=2))
    made = await submit(store, job(schedule))
    worker = await hand(store, timedelta(days=9))
    time.advance(hours=3, seconds=1)
    await fire(store)
    run = await worker.claim_one()
    if paused == "before":
        await store.control.pause_job(TENANT, made.job_id)
    await store.calendars.set_calendar(TENANT, "holidays", (START.date() + timedelta(days=1),))
    stored = await store.control.pause_job(TENANT, made.job_id)
    assert stored.state is JobState.PAUSED and stored.problem is not None
    await store.completions.hand_back(worker.id, [(run.run_id, run.fence)])
    assert await worker.claim() == []


async def test_what_was_not_withdrawn_is_not_made_again(store: Store, time: Time) -> None:
    """In the middle of the backlog: a run that was cancelled, one that runs, one that waits for its next try, and one
    that was asked for by hand."""
    job_id = await backlog(store, time, 20, misfire=Misfire("all"))
    worker = await hand(store, timedelta(hours=9))
    first, second, third = await worker.claim(3)
    await worker.retry(first, 3600)
    await worker.succeed(second)
    runs = {int((run.due_at - START) / MINUTE): run.id for run in await store.reads.runs_of_job(TENANT, job_id)}
    await store.control.cancel_run(TENANT, runs[12])
    manual = await store.control.trigger_job(TENANT, job_id, b"n")
    await store.control.pause_job(TENANT, job_id)
    left = {run.id: run.state for run in await store.reads.runs_of_job(TENANT, job_id)}
    assert left == {
        first.run_id: RunState.RETRYING,
        second.run_id: RunState.SUCCEEDED,
        third.run_id: RunState.RUNNING,
        runs[12]: RunState.CANCELLED,
        manual.id: RunState.PENDING,
    }
    for _ in range(2):  # twice, and twice again before anything was fired
        await store.control.resume_job(TENANT, job_id)
        await store.control.pause_job(TENANT, job_id)
    await store.control.resume_job(TENANT, job_id)
    await fire(store)
    found = {run.id: run.state for run in await store.reads.runs_of_job(TENANT, job_id)}
    assert left.items() <= found.items()
    assert len(found) == 21
    assert found.keys() == {*runs.values(), manual.id}
    assert (await store.reads.job(TENANT, job_id)).made == 20


async def test_a_very_long_backlog_is_owed_as_far_as_any_policy_goes(store: Store, time: Time) -> None:
    said = encode_options(Options(misfire=Misfire("all", most=MOST_CAUGHT_UP)))
    submitted = await submit(store, job(EVERY_MINUTE, options=said))
    time.advance(minutes=900)
    await fire(store)
    time.advance(minutes=200)
    await fire(store)
    assert (await store.reads.counts()).runs == 1100
    await store.control.pause_job(TENANT, submitted.job_id)
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    found = await states(store, submitted.job_id)
    assert sorted(minute for minute, state in found.items() if state is RunState.PENDING) == list(range(101, 1101))
    oldest = (await store.reads.runs_of_job(TENANT, submitted.job_id, 2000))[-1]
    assert (oldest.state, oldest.due_at) == (RunState.SKIPPED, START + MINUTE)
    assert "like every one from" in (oldest.error or "")


@pytest.mark.parametrize(("overlap", "waiting"), [("queue", 1), ("skip", 0)])
async def test_overlap_is_decided_anew(store: Store, time: Time, overlap: Overlap, waiting: int) -> None:
    said = encode_options(Options(overlap=overlap))
    submitted = await submit(store, job(EVERY_MINUTE, options=said))
    worker = await hand(store, timedelta(hours=9))
    time.advance(minutes=1)
    await fire(store)
    running = await worker.claim_one()
    time.advance(minutes=1)
    await fire(store)
    await store.control.pause_job(TENANT, submitted.job_id)
    assert (await store.reads.counts()).runs == 1
    await store.firing.unblock(10)
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    await store.firing.unblock(10)
    assert await worker.claim() == []
    assert (await store.reads.counts()).runs == 1 + waiting
    await worker.succeed(running)
    await store.firing.unblock(10)
    assert len(await worker.claim()) == waiting
    assert sorted(await states(store, submitted.job_id)) == [1, 2]


async def test_another_schedule_owes_nothing_of_the_old_one(store: Store, time: Time) -> None:
    job_id = await backlog(store, time, misfire=Misfire("all"))
    await store.control.pause_job(TENANT, job_id)
    await store.control.edit_job(TENANT, job_id, Changes(schedule=Cron("0 * * * *")))
    await store.control.resume_job(TENANT, job_id)
    assert (await fire(store)).fired == 0
    assert await store.reads.runs_of_job(TENANT, job_id) == []


async def change_its_policy(store: Store, job_id: UUID) -> None:
    await store.control.edit_job(TENANT, job_id, Changes(options={"overlap": "skip"}))


async def change_its_calendar(store: Store, job_id: UUID) -> None:
    await store.calendars.set_calendar(TENANT, "feasts", [START.date() + timedelta(days=9)])


async def change_the_zones(store: Store, job_id: UUID) -> None:
    await store.recompute.recompute_zones("another", 10)


@pytest.mark.parametrize("change", [change_its_policy, change_its_calendar, change_the_zones])
async def test_what_is_owed_is_decided_at_once_whatever_moves_the_cursor_before(
    world: World, store: Store, time: Time, change: Callable[[Store, UUID], Awaitable[None]]
) -> None:
    await store.calendars.set_calendar(TENANT, "feasts", [START.date() + timedelta(days=8)])
    hourly = Cron("0 * * * *", "Europe/Berlin", exclude=make_exclusion(calendars=["feasts"]))
    said = encode_options(Options(misfire=Misfire("all")))
    submitted = await submit(store, job(hourly, options=said))
    time.advance(hours=3, minutes=10)
    await fire(store)
    newest = (await store.reads.runs_of_job(TENANT, submitted.job_id))[0]
    await store.control.cancel_run(TENANT, newest.id)
    await store.control.pause_job(TENANT, submitted.job_id)
    if change is change_the_zones:  # as another database has it
        await world.misplace(submitted.job_id, START + timedelta(hours=4, minutes=30), START + timedelta(hours=3))
    await store.control.resume_job(TENANT, submitted.job_id)
    await change(store, submitted.job_id)
    assert (await fire(store)).fired == 1
    assert len(await store.reads.runs_of_job(TENANT, submitted.job_id)) == 3


@pytest.mark.parametrize("schedule", [Cron("0 * * * *"), Cron("0 0 * * *")])
async def test_what_is_resumed_while_the_clock_is_ahead_is_decided_when_it_is_put_back(
    store: Store, time: Time, schedule: Cron
) -> None:
    said = encode_options(Options(misfire=Misfire("all", most=1000, age=1e9)))
    submitted = await submit(store, job(schedule, options=said))
    time.advance(days=3, minutes=10)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id, 1000)
    await store.control.cancel_run(TENANT, runs[0].id)
    await store.control.pause_job(TENANT, submitted.job_id)
    time.advance(hours=5)
    await store.clocks.keep_clock_seen(time.now, stepped=True)  # as a node does that is up
    await store.control.resume_job(TENANT, submitted.job_id)
    time.advance(hours=-5)
    await store.clocks.shift_back()
    await fire(store)
    found = await store.reads.runs_of_job(TENANT, submitted.job_id, 1000)
    assert {run.id for run in runs} <= {run.id for run in found}


async def test_what_follows_another_job_is_not_started_while_it_is_paused(store: Store, time: Time) -> None:
    first = await submit(store, job(EVERY_MINUTE))
    after = await submit(store, job(After(first.job_id), task="count"))
    worker = await hand(store, timedelta(hours=9))
    time.advance(minutes=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    await store.graphs.settle(10)
    last = await submit(store, job(After(after.job_id, on="any")))
    await store.control.pause_job(TENANT, after.job_id)
    (found,) = await store.reads.runs_of_job(TENANT, after.job_id)
    assert (found.state, found.error) == (RunState.SKIPPED, "missed: its job was paused")
    paused = await store.reads.job(TENANT, after.job_id)
    assert (paused.made, paused.missed) == (0, 1)
    await store.control.resume_job(TENANT, after.job_id)
    await store.graphs.settle(10)
    assert await worker.claim() == []
    assert await store.reads.runs_of_job(TENANT, last.job_id) == [], "what was skipped is no end"


async def do_something(random: Random, worker: Hand, job_id: UUID, walk: "Walk") -> None:
    """Take some runs and end them in some way, give one back, or cancel one that waits."""
    store = worker.store
    if random.random() < 0.2:
        waiting = [
            run.id for run in await store.reads.runs_of_job(TENANT, job_id, 1000) if run.state is RunState.PENDING
        ]
        if waiting:
            await store.control.cancel_run(TENANT, random.choice(waiting))
        return
    if walk.held and random.random() < 0.5:
        run = walk.held.pop(random.randrange(len(walk.held)))
        await hand_back(worker, run)
        assert run.fence > walk.given_back.get(run.run_id, 0), "its fence began anew"
        walk.given_back[run.run_id] = run.fence
        return
    for run in await worker.claim(random.randint(1, 3)):
        assert run.run_id in walk.started or not walk.paused, "it starts while its job is paused"
        assert run.fence > walk.given_back.get(run.run_id, 0), "its fence began anew"
        end = random.choice([worker.succeed, worker.fail, worker.retry, worker.snooze, *2 * [walk.hold], None])
        if end != walk.hold:
            walk.started.add(run.run_id)
        if end is not None:
            await end(run)


class Walk:
    """What a random walk has done so far."""

    def __init__(self) -> None:
        self.paused = False
        self.started: set[UUID] = set()
        self.held: list[Claimed] = []
        """Claimed ahead, and not started."""
        self.given_back: dict[UUID, int] = {}
        """The fences of claims that were given back."""

    async def hold(self, run: Claimed) -> None:
        self.held.append(run)


@pytest.mark.parametrize("seed", range(10))
async def test_whatever_happens_between_pauses_each_occurrence_has_one_run(store: Store, time: Time, seed: int) -> None:
    random, worker = Random(seed), await hand(store, timedelta(days=9))
    said = encode_options(Options(misfire=Misfire("all", most=1000, age=1e9), jitter=random.choice([0.0, 150.0])))
    job_id = (await submit(store, job(EVERY_MINUTE, options=said))).job_id
    walk = Walk()
    for _ in range(60):
        match random.randrange(6):
            case 0 | 1:
                time.advance(minutes=random.choice([0.3, 1, 2, 7]))
                await fire(store)
            case 2 | 3:
                await do_something(random, worker, job_id, walk)
            case 4:
                await fire(store)
            case _:
                await (store.control.resume_job if walk.paused else store.control.pause_job)(TENANT, job_id)
                walk.paused = not walk.paused
    await store.control.resume_job(TENANT, job_id)
    time.advance(minutes=1)
    await fire(store)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, job_id, 1000)
    minutes = int((time.now - START) / MINUTE)
    wanted = {run_id(job_id, START + minute * MINUTE) for minute in range(1, minutes + 1)}
    found = [run.id for run in runs]
    assert len(found) == len(set(found))
    assert wanted <= set(found) <= wanted | {run_id(job_id, START + (minutes + 1) * MINUTE)}
    assert all(run.state is not RunState.SKIPPED for run in runs)
    assert (await store.reads.job(TENANT, job_id)).made == len(found)
