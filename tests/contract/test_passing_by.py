"""A node that cannot plan a job leaves it to the others; a job that no node can plan is paused where it stands."""

import errno
from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest

from duetime.engine import unplannable_jobs
from duetime.engine.scanner import Scanner
from duetime.model.firing import Decided, DueJob, PassedBy, SetAside, plan_fire
from duetime.model.job import JobState, NewJob, Options, encode_options
from duetime.model.policy import Misfire
from duetime.model.run import RunState
from duetime.model.schedule import Cron, zone
from duetime.store.protocol.store import PlanFires, Store
from tests.contract.hands import TENANT, fire, hand, job, submit
from tests.contract.worlds import START, Time
from tests.support.zones import load_zones_with

MINUTE = timedelta(minutes=1)
EVERY_MINUTE = Cron("* * * * *")


def recurring(misfire: Misfire, schedule: Cron = EVERY_MINUTE) -> NewJob:
    return job(schedule, options=encode_options(Options(misfire=misfire)))


def leaving_out(*jobs: UUID) -> PlanFires:
    """The plan of a node that cannot process some jobs."""

    def plan(due: Sequence[DueJob], now: datetime) -> list[Decided]:
        return [PassedBy(each.job_id, "not here") if each.job_id in jobs else plan_fire(each, now) for each in due]

    return plan


class Exhausted:
    """A process that is out of file descriptors for as long as it is said; zones that it has loaded are forgotten."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = True
        load_zones_with(self, monkeypatch)

    def __call__(self, name: str) -> ZoneInfo:
        if self.now:
            raise OSError(errno.EMFILE, "Too many open files")
        return ZoneInfo(name)


async def test_a_job_that_is_passed_by_stays_as_it_is(store: Store, other: Store, time: Time) -> None:
    strange, usual = recurring(Misfire()), recurring(Misfire())
    await submit(store, strange, usual)
    time.advance(minutes=1)
    before = await store.reads.job(TENANT, strange.id)
    scan = await fire(store, planned=leaving_out(strange.id))
    assert (scan.fired, scan.seen, scan.set_aside) == (1, 2, ())
    assert scan.passed_by == (PassedBy(strange.id, "not here"),)
    assert await store.reads.job(TENANT, strange.id) == before
    assert (await fire(other)).fired == 1, "another node fires it"
    assert [run.due_at for run in await store.reads.runs_of_job(TENANT, strange.id)] == [START + MINUTE]


async def test_what_is_passed_by_hides_nothing_and_calls_for_no_look(store: Store, time: Time) -> None:
    strange = [recurring(Misfire()) for _ in range(5)]
    await submit(store, *strange)
    time.advance(minutes=1)  # among jobs due at one moment, any may be seen first
    usual = recurring(Misfire())
    await submit(store, usual)
    time.advance(minutes=1)
    plan, without = leaving_out(*(each.id for each in strange)), [each.id for each in strange]
    assert len((await fire(store, limit=5, planned=plan)).passed_by) == 5
    scan = await store.firing.fire_due(5, plan, without)
    assert (scan.fired, scan.seen) == (1, 1)
    assert scan.next_in is not None
    assert scan.next_in > timedelta(0), "they do not keep a scanner busy"
    assert (await store.firing.fire_due(5, plan, without)).seen == 0


@pytest.mark.parametrize("batch", [3, 1000])
async def test_a_node_without_file_descriptors_pauses_no_job(
    store: Store,
    time: Time,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    batch: int,
) -> None:
    zoned = [recurring(Misfire("all"), Cron("* * * * *", "Asia/Kathmandu")) for _ in range(8)]
    await submit(store, *zoned)
    usual = (await submit(store, job(Cron("* * * * *", "Europe/Berlin")))).job_id
    moment = 1000.0
    monkeypatch.setattr(unplannable_jobs, "monotonic", lambda: moment)
    time.advance(minutes=1)
    exhausted = Exhausted(monkeypatch)
    exhausted.now = False
    zone.zone_named("Europe/Berlin")
    exhausted.now = True
    scanner = Scanner(store, batch=batch)
    for _ in range(6):
        await scanner.tick()
    assert len(await store.reads.runs_of_job(TENANT, usual)) == 1, "what it can plan goes on behind them"
    for each in zoned:
        found = await store.reads.job(TENANT, each.id)
        assert (found.state, found.next_run) == (JobState.ACTIVE, START + MINUTE)
        assert "this node leaves it to other nodes" in (found.problem or ""), "asked on that very node"
    assert caplog.text.count("cannot plan") == 1, "it says so once in a while"
    assert "Too many open files" in caplog.text
    time.advance(minutes=2)
    exhausted.now = False
    await scanner.tick()
    assert await store.reads.runs_of_job(TENANT, zoned[0].id) == [], "it does not look at them all the time"
    moment += 3
    for _ in range(6):
        await scanner.tick()
    for each in zoned:
        runs = await store.reads.runs_of_job(TENANT, each.id)
        assert sorted(run.due_at for run in runs) == [START + minute * MINUTE for minute in (1, 2, 3)]


@pytest.mark.parametrize(
    ("misfire", "made"),
    [(Misfire("all", most=1000), 31), (Misfire("all", most=10), 10), (Misfire("latest"), 1), (Misfire("skip", 5), 0)],
)
async def test_resuming_a_job_that_was_set_aside_makes_up_for_what_was_missed(
    store: Store, time: Time, misfire: Misfire, made: int
) -> None:
    worker = await hand(store, timedelta(hours=9))
    submitted = await submit(store, recurring(misfire))
    time.advance(minutes=1)
    await fire(store)
    await worker.succeed(await worker.claim_one())
    time.advance(minutes=1)
    await fire(store, planned=lambda due, _: [SetAside(each.job_id, "it cannot be read") for each in due])
    found = await store.reads.job(TENANT, submitted.job_id)
    assert (found.state, found.problem, found.next_run) == (JobState.PAUSED, "it cannot be read", None)
    time.advance(minutes=30, seconds=30)
    assert (await fire(store)).seen == 0
    await store.control.resume_job(TENANT, submitted.job_id)
    await fire(store)
    runs = await store.reads.runs_of_job(TENANT, submitted.job_id, 1000)
    assert sorted(run.due_at for run in runs) == [START + minute * MINUTE for minute in range(1, 33)]
    assert sum(run.state is RunState.PENDING for run in runs) == made
    resumed = await store.reads.job(TENANT, submitted.job_id)
    assert (resumed.made, resumed.missed, resumed.problem) == (1 + made, 31 - made, None)


async def test_a_job_that_was_set_aside_repeats_nothing_when_the_clock_is_put_back(store: Store, time: Time) -> None:
    worker = await hand(store, timedelta(hours=9))
    submitted = await submit(store, job(EVERY_MINUTE))
    time.advance(minutes=2)
    await fire(store)
    ran = await worker.claim_one()
    await worker.fail(ran)
    time.advance(minutes=1)
    await fire(store, planned=lambda due, _: [SetAside(each.job_id, "it cannot be read") for each in due])
    time.advance(minutes=-5)
    await store.control.resume_job(TENANT, submitted.job_id)
    for _ in range(8):
        time.advance(minutes=1)
        await fire(store)
        for run in await worker.claim():
            assert run.run_id != ran.run_id
            assert not (await worker.fail(run)).refused
    assert (await store.reads.job(TENANT, submitted.job_id)).made == 5
