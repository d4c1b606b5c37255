"""Bounds, words, calendars, edits and previews through the app, under a clock that the test moves."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import duetime
from duetime.model.schedule import Cron, Every
from duetime.testing import harness

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)  # a Monday
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def make_app() -> tuple[duetime.App, list[tuple[datetime, str]]]:
    app = duetime.App()
    ran: list[tuple[datetime, str]] = []

    @app.task(name="note")
    async def note(ctx: duetime.Context, text: str = "first") -> None:
        ran.append((ctx.due_at, text))

    return app, ran


async def test_a_schedule_is_bounded_by_start_and_end() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", cron="0 * * * *", start_at=NINE + 2 * HOUR, end_at="2026-03-02T13:00:00Z")
        await jobs.advance(days=1)
        assert [at for at, _ in ran] == [NINE + number * HOUR for number in (2, 3, 4)]
        assert (await app.job(receipt)).state is duetime.JobState.ENDED
        jobs.assert_submitted("note", cron="0 * * * *", start_at=NINE + 2 * HOUR, end_at=NINE + 4 * HOUR)


async def test_a_repeating_interval_fires_as_often_as_it_says() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", every="R3/2026-03-02T10:00:00Z/PT1H")
        await jobs.advance(days=1)
        assert [at for at, _ in ran] == [NINE + number * HOUR for number in (1, 2, 3)]
        found = await app.job(receipt)
        assert (found.state, found.made) == (duetime.JobState.ENDED, 3)


async def test_words_become_a_schedule() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", when="every weekday at 9am", tz="Europe/Berlin")
        found = await app.job(receipt)
        assert isinstance(found.schedule, Cron)
        assert (found.schedule.line, found.schedule.zone) == ("0 9 * * MON-FRI", "Europe/Berlin")
        assert found.next_run == NINE + DAY - HOUR
        jobs.assert_submitted("note", when="every weekday at 9am", tz="Europe/Berlin")
        jobs.assert_not_submitted("note", when="every day at 9am", tz="Europe/Berlin")
        once = await app.submit("note", {"text": "once"}, when="tomorrow at 8", tz="Europe/Berlin")
        assert once.next_run == NINE + DAY - 2 * HOUR
        again = await app.schedule("note", {"text": "later"}, when="in 2 hours")
        assert again.next_run == NINE + 2 * HOUR
        await jobs.advance(days=1)
        assert [text for _, text in ran] == ["later", "once", "first"]


async def test_the_same_words_under_a_key_are_the_same_request_on_another_day() -> None:
    app, _ = make_app()
    async with harness(app, start=NINE) as jobs:
        words = {"when": "every 2 weeks on friday at 9", "key": "fortnightly"}
        first = await app.schedule("note", **words)
        await jobs.advance(days=6)
        again = await app.schedule("note", **words)
        assert (again.job_id, again.created, again.next_run) == (first.job_id, False, NINE + 18 * DAY)
        edited = await app.schedule("note", {"text": "second"}, **words)
        assert edited.next_run == NINE + 18 * DAY, "an edit of something else leaves the rhythm"
        month = await app.submit("note", run_in="P1M", tz="Europe/Berlin", key="month")
        await jobs.advance(days=1)
        assert (await app.submit("note", run_in="P1M", tz="Europe/Berlin", key="month")).next_run == month.next_run


async def test_a_delay_in_the_calendar_goes_by_the_stores_clock_and_the_zone() -> None:
    app, _ = make_app()
    async with harness(app, start=NINE):
        assert (await app.submit("note", run_in="P1M")).next_run == datetime(2026, 4, 2, 9, tzinfo=UTC)
        summer = await app.submit("note", run_in="P1M", tz="Europe/Berlin")
        assert summer.next_run == datetime(2026, 4, 2, 8, tzinfo=UTC)
        many = await app.submit_many([app.tasks["note"].bind(text="a"), app.tasks["note"].bind(text="b")], run_in="P1Y")
        assert {receipt.next_run for receipt in many} == {datetime(2027, 3, 2, 9, tzinfo=UTC)}


async def test_a_calendar_is_left_out_and_followed() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        await app.set_calendar("holidays", ["2026-03-03"])
        exclude = {"calendars": ["holidays"], "weekdays": ["SAT", "SUN"]}
        receipt = await app.schedule("note", cron="0 12 * * *", exclude=exclude)
        await jobs.advance(days=3)
        assert [at.day for at, _ in ran] == [2, 4]
        changed = await app.set_calendar("holidays", ["2026-03-03", "2026-03-05"])
        assert (changed.version, changed.jobs) == (2, 1)
        await jobs.advance(days=4)
        assert [at.day for at, _ in ran] == [2, 4, 6]
        with pytest.raises(duetime.CalendarInUse, match="edit or cancel them first"):
            await app.delete_calendar("holidays")
        assert [calendar.name for calendar in await app.calendars()] == ["holidays"]
        assert (await app.job(receipt)).missed == 0, "a day that is left out is no occurrence"
        await app.cancel(receipt)
        await app.delete_calendar("holidays")
        with pytest.raises(duetime.NotFound):
            await app.calendar("holidays")


async def test_an_edit_names_what_becomes_different() -> None:
    app, ran = make_app()
    async with harness(app, start=NINE) as jobs:
        receipt = await app.schedule("note", cron="0 * * * *", misfire="skip", retries=3, max_runs=9, timeout="30s")
        job = await app.edit(
            receipt, args=app.tasks["note"].bind(text="second"), retries=5, overlap="queue", priority="LOW"
        )
        assert (job.version, job.timeout_ms, job.options.retry.retries) == (2, 30_000, 5)
        assert (job.options.misfire.mode, job.options.overlap, job.options.max_runs) == ("skip", "queue", 9)
        job = await app.edit(receipt, version=2, timeout=None, max_runs=None, cron="30 * * * *", tz="Asia/Kolkata")
        assert (job.version, job.timeout_ms, job.options.max_runs) == (3, None, None)
        await jobs.advance(hours=2)
        assert ran == [(NINE + HOUR, "second"), (NINE + 2 * HOUR, "second")]
        with pytest.raises(duetime.StaleVersion):
            await app.edit(receipt, version=2, queue="slow")
        same = await app.edit(receipt, when="every 2 weeks", start_at=NINE + DAY)
        assert isinstance(same.schedule, Every)
        assert same.next_run == NINE + DAY


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda app, _: app.schedule("note"), "cron: `cron`, `every`, `when`, `rrule` or `after` is required"),
        (
            lambda app, _: app.schedule("note", cron="0 9 * * *", when="hourly"),
            "when: cron and when cannot be combined",
        ),
        (lambda app, _: app.schedule("note", when="evry weekdy"), "when: 'evry weekdy' is not understood"),
        (lambda app, _: app.schedule("note", when="in 2 hours", overlap="skip"), "overlap: `overlap` requires `cron`"),
        (lambda app, _: app.schedule("note", when="in 2 hours", end_at=NINE), "end_at: requires a recurring schedule"),
        (lambda app, _: app.schedule("note", every="R0/PT1H"), "every: R0 never fires"),
        (lambda app, _: app.schedule("note", every="1h", end_at="tomorrow"), "end_at: 'tomorrow' is not a time"),
        (lambda app, _: app.schedule("note", every="1h", exclude={"days": 1}), "exclude: is not a set of days"),
        (
            lambda app, _: app.schedule("note", every="1h", exclude={"calendars": ["x"]}),
            "exclude.calendars: the calendar",
        ),
        (
            lambda app, _: app.schedule("note", cron="* * * * *", start_at=NINE, end_at=NINE - HOUR),
            "end_at: is before",
        ),
        (lambda app, _: app.submit("note", when="every hour"), "when: 'every hour' is a recurring schedule"),
        (lambda app, _: app.submit("note", run_in="P1M", end_at=NINE), "end_at: `end_at` is not an option here"),
        (lambda app, _: app.set_calendar("holidays", ["25 December"]), "dates: '25 December' is not a date"),
        (lambda app, _: app.set_calendar("no good", []), "calendar: 'no good' is not a name"),
        (lambda app, job: app.edit(job, day_match="both"), "day_match: cannot change without the time .* cron"),
        (
            lambda app, job: app.edit(job, end_at=NINE - HOUR),
            "schedule: has no occurrence left.*change its time",
        ),
        (lambda app, job: app.edit(job, start_at=NINE, end_at=NINE - HOUR), "end_at: is before start_at"),
        (lambda app, job: app.edit(job, args={"txt": 1}), "args"),
        (lambda app, job: app.edit(job, text="x"), "text: is not an option"),
        (lambda app, job: app.edit(job, run_at=NINE, misfire="skip"), "misfire: `misfire` requires `cron`"),
        (lambda app, job: app.edit(job, timeout="30 days"), "timeout: "),
        (lambda app, job: app.preview(job, tz="UTC"), "tz: `tz` cannot be given for a stored job"),
    ],
)
async def test_what_cannot_be_meant_is_refused(
    call: Callable[[duetime.App, Any], Awaitable[object]], message: str
) -> None:
    app, _ = make_app()
    async with harness(app, start=NINE) as jobs:
        job = await app.schedule("note", every="1h")
        before = await app.job(job)
        with pytest.raises(duetime.InvalidInput, match=message):
            await call(app, job)
        assert len(jobs.submitted) == 1
        assert await app.job(job) == before


async def test_previews() -> None:
    app, _ = make_app()
    shown = duetime.preview("0 9 * * MON", tz="Europe/Berlin", start="2026-03-27T00:00:00Z", count=2)
    assert (shown.kind, shown.exact, shown.sentence) == ("cron", "0 9 * * MON", "At 09:00, Monday, Europe/Berlin")
    assert [fire.utc.isoformat() for fire in shown.fires] == ["2026-03-30T07:00:00+00:00", "2026-04-06T07:00:00+00:00"]
    with pytest.raises(duetime.InvalidInput, match=r"exclude\.calendars: cannot be previewed without a database"):
        duetime.preview("hourly", exclude={"calendars": ["holidays"]})
    async with harness(app, start=NINE):
        await app.set_calendar("holidays", ["2026-03-03"])
        exclude = {"calendars": ["holidays"]}
        shown = await app.preview("every day at noon", count=2, exclude=exclude)
        assert [fire.utc.day for fire in shown.fires] == [2, 4]
        assert "not on the days of holidays" in shown.sentence
        receipt = await app.schedule("note", when="every day at noon", exclude=exclude)
        assert (await app.preview(receipt, count=2)).fires == shown.fires


def test_the_same_without_async(tmp_path: Any) -> None:
    app = duetime.App(data_dir=tmp_path)

    @app.task(name="note")
    def note(text: str) -> None: ...

    with app.sync as sync:
        assert sync.set_calendar("holidays", ["2030-01-01"]).version == 1
        receipt = sync.schedule("note", {"text": "a"}, when="every day at noon", exclude={"calendars": ["holidays"]})
        assert sync.edit(receipt, args=app.tasks["note"].bind(text="b")).version == 2
        assert sync.calendar("holidays").jobs == len(sync.calendars()) == 1
        assert len(sync.preview(receipt).fires) == 5
        sync.cancel(receipt)
        sync.delete_calendar("holidays")
