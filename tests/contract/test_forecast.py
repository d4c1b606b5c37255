"""Forecast against fires: whatever is stored, a forecast says what the scanner then makes, to the run.

Random jobs are stored, and some hours pass in which the scanner runs, or does not. Then windows of time that begin in
the past, now or ahead are forecast. Then the clock goes on, the scanner fires whatever comes into view, runs end at
once, and what was made is compared with what was forecast. Each job has a queue of its own, so that the counts by queue
are those of one job: a pair is one job in one window.

`make test` compares a thousand pairs in each store; `make forecast` ten thousand (`DUETIME_TEST_FORECAST`).
"""

import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import msgspec
import pytest

from duetime.engine import fire_quota
from duetime.engine.coming_jobs import list_coming_jobs
from duetime.engine.fire_quota import with_fire_quota
from duetime.engine.jobs_ahead import read_ahead
from duetime.errors import Conflict, NotFound
from duetime.model.forecast import IDLE, forecast
from duetime.model.job import NewJob, Options, decode_options, encode_options
from duetime.model.lists import JobFilter, RunFilter
from duetime.model.policy import Misfire, Overlap
from duetime.model.run import RunState
from duetime.model.schedule import Cron, Every, Exclusion, Once, Schedule, make_rrule
from duetime.model.tenant import TenantChange, TenantLimits, TenantState
from duetime.store.protocol.store import Store
from tests.contract.hands import STRANGER, TENANT, Hand, fire, hand, job, plan, submit
from tests.contract.worlds import START, Time

PAIRS = int(os.environ.get("DUETIME_TEST_FORECAST", "1000"))
JOBS, WINDOWS = 25, 40
HOUR, MINUTE, DAY = timedelta(hours=1), timedelta(minutes=1), timedelta(days=1)
HORIZON = 8 * HOUR
LINES = (
    *("*/7 * * * *", "0 * * * *", "30 9 * * MON-FRI", "*/20 1-3 * * *", "15,45 */2 * * *", "15 2 * * *", "0 0 L * *"),
    *("H * * * *", "H H/3 * * *", "0 */2 * * *; 30 9-17 * * MON-FRI; 15 2 * * *"),
)
RULES = (
    "FREQ=HOURLY;INTERVAL=2",
    "FREQ=MINUTELY;INTERVAL=13;COUNT=20",
    "FREQ=DAILY;BYHOUR=2,9,15,21;BYMINUTE=0,30",
    "FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=2,10,23",
    "FREQ=MONTHLY;BYDAY=1MO,-1FR;BYHOUR=9,17",
)
# The clocks of New York are put forward on 8 March 2026, within a week of where time begins.
ZONES = ("UTC", "America/New_York", "Europe/Berlin", "Asia/Kathmandu")

NO_RUN = (RunState.SKIPPED, RunState.CANCELLED)


class Window(NamedTuple):
    start: datetime
    step: timedelta
    steps: int

    @property
    def end(self) -> datetime:
        return self.start + self.step * self.steps

    def place(self, at: datetime) -> int | None:
        number = (at - self.start) // self.step
        return number if 0 <= number < self.steps else None


@pytest.mark.parametrize("rate", (None, 100.0), ids=("unlimited", "default rate"))
@pytest.mark.parametrize("seed", range(1, 1 + -(-PAIRS // (JOBS * WINDOWS))))
async def test_a_forecast_says_what_fires(store: Store, time: Time, seed: int, rate: float | None) -> None:
    random = Random(seed)
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(fires_per_second=rate)))
    time.advance(seconds=random.randrange(int(6.5 * 86_400)))
    await store.calendars.set_calendar(
        TENANT, "off", [(START + DAY * n).date() for n in range(10) if random.random() < 0.4]
    )
    worker = await hand(store, DAY * 30)
    jobs = {f"q{number}": _job(random, f"q{number}", time.now) for number in range(JOBS)}
    answers = await store.intake.submit(TENANT, list(jobs.values()))
    queues = {answer.job_id: queue for answer, queue in zip(answers, jobs, strict=True)}
    stored = [answer.job_id for answer in answers if answer.next_run is not None and answer.run_id is None]
    strangers = [job(Every(40 * MINUTE), tenant_id=STRANGER, queue=queue) for queue in jobs]
    await submit(store, *strangers, tenant_id=STRANGER)
    await _live_through(store, time, worker, random, [each for each in stored if each])
    time.advance(seconds=random.choice((0.001, 7, 61.5, 3_600.25)))  # what is due by now is late

    now, before = time.now, await _runs(store, queues)
    windows = [_window(random, now) for _ in range(WINDOWS)]
    found = [forecast(await read_ahead(store, TENANT, *window), *window) for window in windows]
    listed = [await _listed(store, window) for window in windows]

    await _run_until(store, time, worker, now + HORIZON)
    made = await _runs(store, queues)
    coming = {run: at for run, at in made.items() if run not in before or at[1] >= now}
    for window, says, jobs_listed in zip(windows, found, listed, strict=True):
        fired = Counter((place, queue) for queue, at in coming.values() if (place := window.place(at)) is not None)
        assert says.counts == fired, _differing(says.counts, fired, jobs, window, now)
        assert {queues[job_id]: count for job_id, count in jobs_listed.items()} == _by_queue(fired)
        decided = {
            q for q in {queue for _, queue in fired} if decode_options(jobs[q].options).overlap in ("skip", "queue")
        }
        assert says.exact == (not decided), says.notes


@pytest.mark.parametrize("seed", range(1, 1 + -(-PAIRS // 250)))
async def test_a_forecast_knows_the_fire_rate(store: Store, time: Time, seed: int) -> None:
    """A rate that only delays fires leaves the forecast exact, to the run. One that lets occurrences pass is named, and
    the runs are about those that fire."""
    random = Random(seed)
    rate = random.choice((0.2, 0.5, 1.0, 3.0, 20.0, 100.0))
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(fires_per_second=rate)))
    worker = await hand(store, DAY)
    jobs = {f"q{number}": _quick_job(random, f"q{number}", time.now) for number in range(random.choice((2, 10, 25)))}
    answers = await store.intake.submit(TENANT, list(jobs.values()))
    queues = {answer.job_id: queue for answer, queue in zip(answers, jobs, strict=True)}
    await _scan_at_intervals(store, time, worker, time.now + timedelta(seconds=random.choice((1, 40))))
    now, before, span = time.now, await _runs(store, queues), timedelta(minutes=3)
    windows = [
        Window(now, span, 1),
        Window(now, timedelta(seconds=30), 6),
        Window(now + MINUTE, timedelta(seconds=1), 60),
    ]
    found = [forecast(await read_ahead(store, TENANT, *window), *window) for window in windows]
    listed = [await _listed(store, window) for window in windows]
    # What is due by then and still waits fires until then.
    await _scan_at_intervals(store, time, worker, now + span + timedelta(seconds=max(30, 2 * len(jobs) / rate)))
    made = await _runs(store, queues)
    coming = {run: at for run, at in made.items() if run not in before or at[1] >= now}
    for window, says, jobs_listed in zip(windows, found, listed, strict=True):
        fired = Counter((place, queue) for queue, at in coming.values() if (place := window.place(at)) is not None)
        if says.exact:
            assert says.counts == fired, _differing(says.counts, fired, jobs, window, now)
            assert {queues[each]: count for each, count in jobs_listed.items()} == _by_queue(fired)
        else:
            assert f"rate of {rate:g} per second" in says.notes[0]
            slack = 3 + len(jobs) + 0.1 * fired.total()
            assert abs(sum(says.counts.values()) - fired.total()) <= slack, (says, fired)
            assert abs(jobs_listed.total() - fired.total()) <= slack


async def test_a_rate_that_is_used_up_is_no_secret_of_the_scanner(store: Store, time: Time) -> None:
    limits = TenantLimits(fires_per_second=1.0)
    await store.tenants.update_tenant(TENANT, TenantChange(limits=limits))
    await submit(store, *(job(Every(timedelta(seconds=1))) for _ in range(10)))
    window = Window(time.now, MINUTE, 1)
    says = forecast(await read_ahead(store, TENANT, *window), *window)
    assert not says.exact and "rate of 1 per second" in says.notes[0]
    assert 40 <= says.counts[0, "default"] <= 62
    assert 40 <= (await _listed(store, window)).total() <= 62


@pytest.mark.parametrize("state", (TenantState.SUSPENDED, TenantState.DELETING))
async def test_nothing_is_forecast_for_a_tenant_that_does_not_fire(
    store: Store, time: Time, state: TenantState
) -> None:
    await submit(
        store, job(Every(timedelta(seconds=10))), job(Once(delay=MINUTE)), job(Once(delay=timedelta(seconds=9)))
    )
    await fire(store)
    window = Window(time.now, MINUTE, 10)
    assert forecast(await read_ahead(store, TENANT, *window), *window).counts
    await store.tenants.update_tenant(TENANT, TenantChange(state=state))
    says = forecast(await read_ahead(store, TENANT, *window), *window)
    assert (says.counts, says.exact, says.notes) == ({}, False, (IDLE[state],))
    assert not await _listed(store, window)
    coming = await store.demand.coming(timedelta(minutes=10))
    assert not coming.jobs and not coming.sampled
    for _ in range(20):
        time.advance(seconds=30)
        assert (await fire(store)).fired == 0
    await store.tenants.update_tenant(TENANT, TenantChange(state=TenantState.ACTIVE))
    window = Window(time.now, MINUTE, 10)
    says = forecast(await read_ahead(store, TENANT, *window), *window)
    assert says.exact and says.counts
    assert (await _listed(store, window)).total() == sum(says.counts.values())


async def test_a_tenant_at_its_limit_of_stored_jobs_skips_what_is_not_forecast(
    store: Store, time: Time, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fire_quota, "LEAST", 0)
    jobs = [job(Every(timedelta(seconds=20)), queue="often") for _ in range(3)]
    once = job(Once(delay=2 * MINUTE), queue="once")
    await submit(store, *jobs, once)
    await store.tenants.update_tenant(TENANT, TenantChange(limits=TenantLimits(stored_jobs=4)))
    bounded = with_fire_quota(store)
    await bounded.firing.fire_due(100, plan)
    time.advance(seconds=6)
    await bounded.firing.fire_due(100, plan)  # one fire each: it is counted, and the tenant is at its limit
    queues = {each.id: each.lane.queue for each in (*jobs, once)}
    window, before = Window(time.now, MINUTE, 3), await _runs(store, queues)
    says = forecast(await read_ahead(store, TENANT, *window), *window)
    assert says.notes and "limit of stored jobs" in says.notes[0]
    assert sum(says.counts.values()) == 1 + len(before) == (await _listed(store, window)).total()
    for _ in range(12):
        time.advance(seconds=10)
        await bounded.firing.fire_due(100, plan)
    fired = {run: queue for run, (queue, _) in (await _runs(store, queues)).items() if run not in before}
    assert list(fired.values()) == ["once"], "the occurrences of the others were skipped"


def _quick_job(random: Random, queue: str, now: datetime) -> NewJob:
    if random.random() < 0.3:
        return job(Once(at=now + timedelta(seconds=random.uniform(0, 240))), queue=queue)
    options = Options(
        jitter=random.choice((0.0, 0.0, 20.0)),
        max_runs=random.choice((None, None, 3)),
        misfire=random.choice((Misfire(), Misfire("skip"), Misfire("skip", after=5.0), Misfire("all"))),
    )
    schedule: Schedule = Every(timedelta(seconds=random.choice((3.0, 10.0, 45.0, 60.0))), now)
    if random.random() < 0.5:
        schedule = Cron(random.choice(("* * * * *", "*/10 * * * * *", "30 */2 * * * *")))
    return job(schedule, queue=queue, options=encode_options(options))


async def _scan_at_intervals(store: Store, time: Time, worker: Hand, end: datetime) -> None:
    """A scanner as it is: it looks when a cursor comes into view, and every half a second for those that wait."""
    while time.now < end:
        scan = await fire(store)
        await _finish(store, worker)
        wait = 0.5 if scan.next_in is None else min(0.5, scan.next_in / timedelta(seconds=1))
        time.advance(seconds=wait)


def _by_queue(fired: Counter[tuple[int, str]]) -> Counter[str]:
    counted = Counter[str]()
    for (_, queue), count in fired.items():
        counted[queue] += count
    return counted


def _job(random: Random, queue: str, now: datetime) -> NewJob:
    schedule = _schedule(random, now)
    if isinstance(schedule, Once):
        return job(schedule, queue=queue)
    overlap: Overlap = random.choice(("allow", "allow", "skip", "queue", "replace"))
    # A run that jitter moves past the next occurrence is not over then, and what becomes of that one is an estimate.
    may_be_moved = overlap == "allow"
    options = Options(
        jitter=random.choice((0.0, 0.0, 20.0, 900.0, 7200.0)) if may_be_moved else 0.0,
        max_runs=random.choice((None, None, None, 1, 3, 12)),
        overlap=overlap,
        misfire=random.choice(
            (Misfire(), Misfire("skip"), Misfire("skip", after=0.0), Misfire("all"), Misfire("all", most=3, age=1800.0))
        ),
    )
    return job(schedule, queue=queue, options=encode_options(options))


def _schedule(random: Random, now: datetime) -> Schedule:
    if random.random() < 0.2:
        return Once(at=now + timedelta(seconds=random.uniform(-10, 10 * 3600)))
    bounds: dict[str, Any] = {}
    if random.random() < 0.25:
        bounds["start_at"] = now + timedelta(seconds=random.uniform(-3600, 6 * 3600))
    if random.random() < 0.25:
        bounds["end_at"] = now + timedelta(seconds=random.uniform(3600, 8 * 3600))
    zone, calendar_steps = random.choice(ZONES), random.random() < 0.3
    if random.random() < 0.2:
        begin = now - timedelta(seconds=random.uniform(0, 7200))
        return msgspec.structs.replace(make_rrule(random.choice(RULES), zone, begin), **bounds)
    if random.random() < 0.5:
        line = random.choice(LINES)
        return Cron(line, zone, **bounds, exclude=_exclusion(random, moves=random.random() < 0.5))
    if calendar_steps:
        exclude = _exclusion(random, moves=random.random() < 0.5)
        anchor = now - DAY * random.randrange(3) - timedelta(seconds=random.randrange(86_400))
        return Every(timedelta(), anchor, days=1, zone=zone, count=random.choice((None, 3)), **bounds, exclude=exclude)
    seconds = random.choice((300.0, 420.5, 1800.0, 5000.0))
    count = random.choice((None, None, 5, 40))
    anchor = now - timedelta(seconds=random.uniform(0, 7200))
    return Every(timedelta(seconds=seconds), anchor, zone=zone, count=count, **bounds, exclude=_exclusion(random))


def _exclusion(random: Random, *, moves: bool = False) -> Exclusion | None:
    if random.random() < 0.6:
        return None
    instead: Any = "next_day" if moves else "skip"
    weekdays = tuple(day for day in ("MON", "SAT", "SUN") if random.random() < 0.4)
    if random.random() < 0.5:
        return Exclusion(weekdays=weekdays, calendars=("off",), instead=instead)
    dates = tuple((START + DAY * number).date() for number in range(9) if random.random() < 0.3)
    return Exclusion(dates, weekdays or ("SUN",), instead)


def _window(random: Random, now: datetime) -> Window:
    start = now + random.choice((-1, 0, 0, 1)) * timedelta(seconds=random.choice((1.0, 600.0, 3600.0, 5432.1)))
    step = timedelta(seconds=random.choice((1.0, 60.0, 300.0, 437.5, 3600.0)))
    most = min(60, (now + HORIZON - start) // step)
    return Window(start, step, random.randint(1, max(1, most)))


async def _live_through(store: Store, time: Time, worker: Hand, random: Random, ids: list[UUID]) -> None:
    """Some time passes; some jobs are paused, and some of those resumed, some run by hand."""
    for _ in range(random.randrange(3)):
        if random.random() < 0.7:
            await _run_until(store, time, worker, time.now + timedelta(seconds=random.choice((10, 900, 4000))))
        else:
            time.advance(seconds=random.choice((5, 500, 9000)))  # no scanner runs
        for job_id in random.sample(ids, k=min(3, len(ids))):
            with suppress(Conflict, NotFound):  # it is over
                waiting = [
                    run for run in await store.reads.runs_of_job(TENANT, job_id) if run.state is RunState.PENDING
                ]
                if waiting and random.random() < 0.5:
                    await store.control.cancel_run(TENANT, waiting[0].id)  # then those before it are owed
                await store.control.pause_job(TENANT, job_id)
                if random.random() < 0.5:
                    await store.control.resume_job(TENANT, job_id)
                if random.random() < 0.3:
                    await store.control.trigger_job(TENANT, job_id, b"n")
    await _finish(store, worker)


async def _run_until(store: Store, time: Time, worker: Hand, end: datetime) -> None:
    """A scanner that is never late, and runs that end at once."""
    while True:
        scan = await fire(store)
        await store.firing.unblock(1000)
        await _finish(store, worker)
        if scan.next_in is None or time.now + scan.next_in >= end:
            break
        if scan.next_in > timedelta():
            time.advance(seconds=scan.next_in / timedelta(seconds=1))
    if end > time.now:
        time.advance(seconds=(end - time.now) / timedelta(seconds=1))
        await _finish(store, worker)


async def _finish(store: Store, worker: Hand) -> None:
    while runs := await worker.claim():
        await worker.succeed(*runs)
        await store.firing.unblock(1000)


async def _runs(store: Store, queues: dict[UUID, str]) -> dict[UUID, tuple[str, datetime]]:
    found: dict[UUID, tuple[str, datetime]] = {}
    before = None
    while True:
        page = await store.lists.list_runs(TENANT, RunFilter(), before, 1000)
        found |= {run.id: (queues[run.job_id], run.due_at) for run in page.items if run.state not in NO_RUN}
        before = page.next
        if before is None:
            return found


async def _listed(store: Store, window: Window) -> Counter[UUID]:
    """The jobs that are counted in a window, and how often, read some at a time."""
    found = Counter[UUID]()
    before: UUID | None = None
    while True:
        page, runs = await list_coming_jobs(store, _at_once, TENANT, JobFilter(), window.start, window.end, before, 7)
        found.update({each.id: runs[each.id] for each in page.items})
        before = page.next
        if before is None:
            return +found


async def _at_once(work: Callable[..., Any], *values: Any) -> Any:
    return work(*values)


def _differing(
    said: dict[tuple[int, str], int],
    fired: Counter[tuple[int, str]],
    jobs: dict[str, NewJob],
    window: Window,
    now: datetime,
) -> str:
    places = sorted(place for place in said.keys() | fired.keys() if said.get(place, 0) != fired[place])
    lines = [f"{place}: said {said.get(place, 0)}, fired {fired[place]}: {jobs[place[1]]}" for place in places[:3]]
    return "\n".join([f"{window} at {now}", *lines])
