"""What an app does is the same beside a database and over HTTP: every check here runs both ways."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from duetime import App, CalendarInUse, GraphPlan, InvalidInput, Job, NotFound, RetryPolicy, Settings, StaleVersion
from duetime.model.access import Role
from duetime.model.lists import JobFilter
from duetime.model.schedule import Cron, Every
from tests.support.served import serving
from tests.support.working import ended, working

HOLIDAYS = (date(2030, 12, 25), date(2031, 1, 1))


def add_task(app: App) -> None:
    @app.task(name="note", retry=RetryPolicy(retries=7, retry_on=("ValueError",)), timeout="90s")
    async def note(text: str = "first") -> None: ...


@pytest.fixture(params=["beside", "over HTTP"])
async def either(request: pytest.FixtureRequest, app: App) -> AsyncIterator[App]:
    add_task(app)
    if request.param == "beside":
        yield app
        return
    async with serving(await app.store(), app.settings) as served:
        settings = Settings(url=served.url, key=await served.key(Role.OPERATOR))
        async with App(settings=settings) as remote:
            add_task(remote)
            yield remote


async def as_stored(app: App, job: Job) -> Job:
    """The job as its store has it."""
    return await (await app.store()).reads.job(1, job.id)


RECURRING: list[dict[str, Any]] = [
    {
        "cron": "0 9 * * 1-5",
        "tz": "Europe/Berlin",
        "start_at": "2030-01-01T00:00:00Z",
        "end_at": "2031-01-01T00:00:00Z",
    },
    {"every": "90m"},
    {"every": "P1M", "tz": "Asia/Tokyo", "start_at": "2030-01-31T09:00:00Z"},
    {"every": "R5/2030-01-01T00:00:00Z/PT1H"},
    {"every": "R5/PT1H"},
    {"when": "every weekday at 9am", "tz": "Europe/Berlin"},
    {"when": "every 2 weeks at 9:00", "exclude": {"weekdays": ["SUN"], "dates": ["2030-12-24"]}},
    {"when": "PT15M", "start_at": "2030-01-31T09:00:00Z"},
    {"when": "every 3 hours", "start_at": "2030-01-31T09:00:00Z"},
    {"every": "P1D", "exclude": {"calendars": ["holidays"], "instead": "next_day"}},
    {"rrule": "DTSTART:20300107T090000 RRULE:FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,TH", "tz": "Europe/Berlin"},
    {"rrule": "DTSTART;TZID=Asia/Tokyo:20300107T090000\nRRULE:FREQ=DAILY;COUNT=5"},
    {"rrule": "FREQ=DAILY;INTERVAL=3", "start_at": "2030-01-31T09:00:00Z"},
    {"when": "FREQ=MONTHLY;BYDAY=-1FR;BYHOUR=17;BYMINUTE=0", "tz": "Europe/Berlin"},
    {"cron": "0 9 13 * FRI", "day_match": "both", "tz": "Europe/Berlin"},
    {"cron": "CRON_TZ=Asia/Tokyo 0 9 L-1,15W * *; 30 17 * * FRI-MON"},
    {"cron": "H H * * *", "tz": "Europe/Berlin"},
    {"cron": "cron(0 10 ? * 2-6 2030-2040)"},
    {"cron": "@every 90s"},
    {"when": "every day at 9:00 and 17:30", "tz": "Europe/Berlin"},
]
ONCE: list[dict[str, Any]] = [
    {},
    {"run_in": "2h"},
    {"run_at": "2030-01-01T09:00:00Z"},
    {"when": "in 2 hours"},
    {"when": "tomorrow at 8", "tz": "Europe/Berlin"},
    {"run_in": "P1M", "tz": "Europe/Berlin"},
]


async def test_a_schedule_is_read_back_as_it_is_stored(either: App, app: App) -> None:
    await either.set_calendar("holidays", HOLIDAYS)
    for number, when in enumerate(RECURRING):
        first = await either.schedule("note", {"text": "x"}, key=f"k{number}", **when)
        job = await either.job(first)
        assert job == await as_stored(app, job), when
        again = await either.schedule("note", {"text": "x"}, key=f"k{number}", **when)
        assert (again.job_id, again.created) == (first.job_id, False), when
        assert (await either.job(first)).version == job.version, "the same request changes nothing"
        assert (await either.edit(first, priority="HIGH")).schedule == job.schedule, when


async def test_a_request_that_is_repeated_is_known_again(either: App) -> None:
    for number, when in enumerate(ONCE):
        first = await either.submit("note", idempotency_key=f"i{number}", **when)
        again = await either.submit("note", idempotency_key=f"i{number}", **when)
        assert (again.job_id, again.next_run) == (first.job_id, first.next_run), when


async def test_what_is_submitted_runs_once(either: App, app: App) -> None:
    await either.submit("note", when="tomorrow at 9am")
    plan = GraphPlan("plan").add("daily", either.tasks["note"].options(when="every day at 9am").bind())
    attempts = {"when": either.submit("note", when="every day at 9am"), "nodes.daily.when": either.submit_graph(plan)}
    for field, submitted in attempts.items():
        with pytest.raises(InvalidInput, match="'every day at 9am' is a recurring schedule") as refused:
            await submitted
        assert (refused.value.field, refused.value.remedy) == (field, "use schedule")
    (stored,) = (await (await app.store()).lists.list_jobs(1, JobFilter())).items
    assert not stored.recurring


async def test_editing(either: App, app: App) -> None:
    job = await either.job(await either.schedule("note", every="1h", name="one", tags=["a"], max_runs=9))
    edited = await either.edit(
        job.id,
        version=job.version,
        cron="0 9 * * *",
        tz="Asia/Tokyo",
        exclude={"weekdays": ["SUN"]},
        args=either.tasks["note"].bind(text="second"),
        queue="other",
        priority="LOW",
        timeout="5s",
        name="two",
        tags=["b", "c"],
        retry=RetryPolicy(retries=2, base=1.5, give_up_on=(KeyError,)),
        misfire="all",
        overlap="skip",
        jitter="3s",
        owner="u7",
        payload_ref="s3://bucket/7",
    )
    assert edited == await as_stored(app, edited)
    assert isinstance(edited.schedule, Cron) and edited.schedule.exclude is not None
    assert (edited.options.owner, edited.options.tags, edited.options.max_runs) == ("u7", ("b", "c"), 9)
    assert edited.version == job.version + 1
    bare = await either.edit(job.id, timeout=None, max_runs=None, owner=None, payload_ref=None, tags=[])
    assert (bare.timeout_ms, bare.options.max_runs, bare.options.owner, bare.options.tags) == (None, None, None, ())
    assert (await either.edit(job.id, delivery="at_most_once")).options.retry.retries == 0
    said = (await either.edit(job.id, when="every weekday at 9am")).schedule
    assert isinstance(said, Cron) and said.said == "every weekday at 9am"
    assert (await either.edit(job.id, run_at="2030-01-01T00:00:00Z")).next_run == datetime(2030, 1, 1, tzinfo=UTC)


async def test_an_edit_keeps_of_a_schedule_what_it_does_not_name(either: App) -> None:
    days = {"weekdays": ["SUN"], "dates": ["2030-12-24"]}
    bounds: dict[str, Any] = {"end_at": "2031-01-01T00:00:00Z", "exclude": days, "start_at": "2030-01-01T00:00:00Z"}
    job = await either.job(await either.schedule("note", cron="0 12 * * *", tz="Europe/Berlin", jitter="5s", **bounds))
    for change in ({"cron": "5 12 * * *"}, {"when": "every day at 13:00"}, {"rrule": "FREQ=DAILY;BYHOUR=14"}):
        edited = await either.edit(job.id, **change)
        assert edited.schedule != job.schedule
        for name in ("zone", "start_at", "end_at", "exclude"):
            assert getattr(edited.schedule, name) == getattr(job.schedule, name), (change, name)
        assert edited.options.jitter == job.options.jitter
    bare = (await either.edit(job.id, cron="0 9 * * *", tz="UTC", end_at=None, start_at=None, exclude=None)).schedule
    assert bare == Cron("0 9 * * *")
    alone = (await either.edit(job.id, end_at=bounds["end_at"])).schedule
    assert alone == Cron("0 9 * * *", end_at=datetime(2031, 1, 1, tzinfo=UTC))
    assert (await either.edit(job.id, end_at=None, tz="Asia/Tokyo")).schedule == Cron("0 9 * * *", "Asia/Tokyo")


async def test_what_limits_a_job_is_taken_away(either: App, app: App) -> None:
    limits: dict[str, Any] = {"concurrency_key": "c", "concurrency": 5, "rate_key": "r", "rate": "9/m"}
    job = await either.job(await either.schedule("note", every="1d", **limits))
    for gone in ("concurrency_key", "rate_key"):
        await either.edit(job.id, **{gone: None})
    bare = await as_stored(app, job)
    assert (bare.options.concurrency_key, bare.options.concurrency) == (None, 1)
    assert (bare.options.rate_key, bare.options.rate) == (None, None)
    assert await either.job(job.id) == bare


async def test_an_edit_that_is_refused(either: App) -> None:
    job = await either.job(await either.schedule("note", every="1h"))
    with pytest.raises(StaleVersion):
        await either.edit(job.id, version=job.version + 1, priority="LOW")
    with pytest.raises(InvalidInput, match="day_match: cannot change without the time"):
        await either.edit(job.id, day_match="both")
    with pytest.raises(InvalidInput, match=r"exclude\.calendars: the calendar 'nowhere' does not exist"):
        await either.edit(job.id, cron="0 9 * * *", exclude={"calendars": ["nowhere"]})
    with pytest.raises(NotFound):
        await either.edit("job_00000000000000000000000000", priority="LOW")
    assert await either.job(job.id) == job


async def test_calendars(either: App) -> None:
    with pytest.raises(NotFound):
        await either.calendar("holidays")
    made = await either.set_calendar("holidays", [day.isoformat() for day in HOLIDAYS])
    assert (made.name, made.dates, made.version, made.jobs) == ("holidays", HOLIDAYS, 1, 0)
    receipt = await either.schedule("note", cron="0 9 * * *", exclude={"calendars": ["holidays"]})
    assert (await either.calendars())[0].jobs == 1
    with pytest.raises(CalendarInUse):
        await either.delete_calendar("holidays")
    assert (await either.set_calendar("holidays", HOLIDAYS[:1])).version == 2
    schedule = (await either.job(receipt)).schedule
    assert isinstance(schedule, Cron) and schedule.exclude is not None and schedule.exclude.held == HOLIDAYS[:1]
    await either.cancel(receipt)
    await either.delete_calendar("holidays")
    assert await either.calendars() == []


async def test_previews(either: App) -> None:
    await either.set_calendar("holidays", HOLIDAYS)
    exclude = {"calendars": ["holidays"]}
    start = "2030-12-24T12:00:00Z"
    shown = await either.preview("every day at 9am", tz="Europe/Berlin", start=start, exclude=exclude, count=7)
    assert [fire.utc.day for fire in shown.fires] == [26, 27, 28, 29, 30, 31, 2]
    receipt = await either.schedule("note", every="90m", exclude=exclude)
    job = await either.job(receipt)
    assert isinstance(job.schedule, Every) and job.schedule.anchor is not None
    coming = (await either.preview(receipt, count=2)).fires
    assert [fire.utc - job.schedule.anchor for fire in coming] == [timedelta(minutes=90), timedelta(minutes=180)]


async def test_backfilling_leaves_out_what_the_schedule_does(either: App) -> None:
    end = datetime.now(UTC)
    half_a_day_away = f"0 {(end.hour + 12) % 24} * * *"  # so that none fires by itself meanwhile
    receipt = await either.schedule("note", cron=half_a_day_away, tz="UTC", exclude={"weekdays": ["SAT", "SUN"]})
    assert await either.backfill(receipt, end - timedelta(days=14), end) == 10
    runs = await either.runs(receipt)
    assert len(runs) == 10 and not {run.due_at.strftime("%a") for run in runs} & {"Sat", "Sun"}
    assert (await either.trigger(receipt)).arguments == {}


async def test_lag_is_that_of_the_first_start(either: App, app: App) -> None:
    for each in {either, app}:

        @each.task(name="twice", retry=RetryPolicy(retries=1, base=0.2))
        async def twice() -> None:
            raise ValueError("no")

    receipt = await either.submit("twice")
    async with working(app):
        await ended(either, receipt)
    run = await either.run(receipt.run_id or "")
    first, last = run.attempts
    assert first.started_at is not None
    assert last.started_at is not None
    assert run.lag == first.started_at - run.due_at
    assert run.retry_delay == last.started_at - first.started_at
    [same] = await either.runs(receipt)
    assert (same.lag, same.retry_delay) == (run.lag, run.retry_delay)
