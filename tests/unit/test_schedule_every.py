"""Intervals: exact and through the calendar, anchored, counted, with days left out."""

from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from duetime.errors import InvalidInput
from duetime.model.schedule import (
    Cron,
    Every,
    Exclusion,
    Once,
    Recurring,
    UnusableSchedule,
    decode_schedule,
    encode_schedule,
    make_exclusion,
    make_schedule,
)
from duetime.model.schedule.period import Period, parse_period

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def fires(schedule: Recurring, start: datetime, count: int) -> list[datetime]:
    found: list[datetime] = []
    moment: datetime | None = start
    while len(found) < count and moment is not None and (moment := schedule.next_after(moment)) is not None:
        found.append(moment)
    return found


@pytest.mark.parametrize(
    ("text", "period", "written"),
    [
        ("PT15M", Period(exact=timedelta(minutes=15)), "PT15M"),
        ("P1D", Period(days=1), "P1D"),
        ("P2W", Period(days=14), "P2W"),
        ("P1M", Period(months=1), "P1M"),
        ("P1Y", Period(months=12), "P1Y"),
        ("P1Y2M10D", Period(14, 10), "P1Y2M10D"),
        ("P1DT12H", Period(days=1, exact=timedelta(hours=12)), "P1DT12H"),
        ("1d", Period(days=1), "P1D"),
        ("2w", Period(days=14), "P2W"),
        ("1w 2d", Period(days=9), "P9D"),
        ("1d12h", Period(days=1, exact=timedelta(hours=12)), "P1DT12H"),
        ("90s", Period(exact=timedelta(seconds=90)), "PT1M30S"),
        ("1500ms", Period(exact=timedelta(seconds=1.5)), "PT1.5S"),
        (90, Period(exact=timedelta(seconds=90)), "PT1M30S"),
        (timedelta(days=1), Period(exact=timedelta(days=1)), "PT24H"),
        ("P0D", Period(), "PT0S"),
    ],
)
def test_lengths_of_time(text: Any, period: Period, written: str) -> None:
    assert parse_period(text, "every") == period
    assert str(period) == written
    assert parse_period(written, "every") == period


@pytest.mark.parametrize(
    "text",
    [
        "",
        "P",
        "PT",
        "P1",
        "1d5",
        "2d1w",
        "P1.5D",
        "1.5d",
        "0.5w",
        "P-1D",
        "-1d",
        "P1H",
        "PT1D",
        "P9999999Y",
        "P101Y",
        "٣d",
    ],
)
def test_lengths_that_cannot_be_read(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_period(text, "every")
    assert caught.value.field == "every"


def test_a_short_month_does_not_shorten_the_next() -> None:
    every = Every(timedelta(0), datetime(2026, 1, 31, 9, tzinfo=UTC), months=1)
    found = fires(every, datetime(2026, 1, 1, tzinfo=UTC), 14)
    assert [fire.day for fire in found] == [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 31, 28]
    assert {fire.hour for fire in found} == {9}


def test_an_interval_of_the_calendar_is_counted_from_creation() -> None:
    created = datetime(2026, 1, 31, 9, 30, 15, 250_000, tzinfo=UTC)
    every = Every(timedelta(0), months=1).anchored(created)
    assert every.anchored(NINE) is every
    assert [fire.date() for fire in fires(every, created, 3)] == [
        date(2026, 2, 28),
        date(2026, 3, 31),
        date(2026, 4, 30),
    ]
    assert every.next_after(created - timedelta(days=1)) == datetime(2026, 2, 28, 9, 30, 15, 250_000, tzinfo=UTC)
    assert every.latest_until(created) is None


def test_a_day_of_the_calendar_keeps_its_hour_and_24_hours_do_not() -> None:
    start = datetime(2026, 3, 28, 9, tzinfo=BERLIN).astimezone(UTC)
    by_day = fires(Every(timedelta(0), start, days=1, zone="Europe/Berlin"), start, 2)
    assert [fire.astimezone(BERLIN).hour for fire in by_day] == [9, 9]
    by_hours = fires(Every(timedelta(hours=24), start, zone="Europe/Berlin"), start, 2)
    assert [fire.astimezone(BERLIN).hour for fire in by_hours] == [10, 10]


def test_a_start_in_the_second_of_two_hours_is_kept() -> None:
    start = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1).astimezone(UTC)
    every = Every(timedelta(0), start, days=1, zone="Europe/Berlin")
    assert fires(every, start - timedelta(days=2), 2) == [start, datetime(2026, 10, 26, 1, 30, tzinfo=UTC)]
    assert every.latest_until(start) == start
    assert every.latest_until(start - timedelta(minutes=1)) is None


def test_days_and_hours_together() -> None:
    start = datetime(2026, 3, 27, 20, tzinfo=BERLIN).astimezone(UTC)
    every = Every(timedelta(hours=12), start, days=1, zone="Europe/Berlin")
    shown = [fire.astimezone(BERLIN).strftime("%d %H") for fire in fires(every, start, 4)]
    # A day of the calendar and 12 real hours, each counted from the start: the change costs its hour only once.
    assert shown == ["29 09", "30 20", "01 08", "02 20"]


@pytest.mark.parametrize("interval", ["PT1H", "P1D", "P1M"])
def test_a_repeating_interval_ends_by_number(interval: str) -> None:
    schedule = make_schedule(every=f"R5/2026-01-31T00:00:00Z/{interval}", tz="Europe/Berlin")
    assert isinstance(schedule, Every)
    found = fires(schedule, datetime(2000, 1, 1, tzinfo=UTC), 10)
    assert len(found) == 5
    assert found[0] == datetime(2026, 1, 31, tzinfo=UTC)
    assert schedule.next_after(found[-1]) is None
    assert schedule.latest_until(datetime(2100, 1, 1, tzinfo=UTC)) == found[-1]
    assert schedule.latest_until(found[0] - timedelta(seconds=1)) is None


def test_a_count_without_a_start_begins_after_one_interval() -> None:
    schedule = make_schedule(every="R3/PT10M")
    assert isinstance(schedule, Every)
    found = fires(schedule.anchored(NINE), NINE - timedelta(days=1), 10)
    assert found == [NINE + timedelta(minutes=10 * number) for number in (1, 2, 3)]


def test_bounds_are_inclusive() -> None:
    for schedule in (
        make_schedule(cron="0 * * * *", start_at=NINE, end_at=NINE + timedelta(hours=2)),
        make_schedule(every="1h", start_at=NINE, end_at=NINE + timedelta(hours=2)),
    ):
        assert not isinstance(schedule, Once)
        assert fires(schedule, NINE - timedelta(days=9), 9) == [NINE + timedelta(hours=hours) for hours in range(3)]
        assert schedule.latest_until(NINE - timedelta(microseconds=1)) is None
        assert schedule.latest_until(NINE + timedelta(days=9)) == NINE + timedelta(hours=2)


def test_what_is_carried() -> None:
    schedule = make_schedule(
        cron="0 9 * * *",
        tz="Europe/Berlin",
        exclude={"dates": ["2026-12-26", date(2026, 12, 25)], "weekdays": ["sunday", "SAT"], "instead": "next_day"},
    )
    calendar = make_exclusion([date(2026, 12, 25), date(2026, 12, 26)], ["SAT", "SUN"], "next_day")
    expected = Cron("0 9 * * *", "Europe/Berlin", exclude=calendar)
    assert schedule == expected
    assert decode_schedule(encode_schedule(schedule)) == expected


@pytest.mark.parametrize(
    ("body", "schedule"),
    [
        (b'{"type":"once"}', Once()),
        (b'{"type":"once","at":"2026-03-02T09:00:00Z"}', Once(at=NINE)),
        (b'{"type":"once","delay":"PT90S"}', Once(delay=timedelta(seconds=90))),
        (b'{"type":"cron","line":"0 9 * * *"}', Cron("0 9 * * *")),
        (b'{"type":"cron","line":"0 9 * * *","zone":"Asia/Tokyo"}', Cron("0 9 * * *", "Asia/Tokyo")),
        (b'{"type":"every","interval":"P1D","anchor":"2026-03-02T09:00:00Z"}', Every(timedelta(days=1), NINE)),
    ],
)
def test_what_was_stored_before_is_still_read(body: bytes, schedule: Any) -> None:
    assert decode_schedule(body) == schedule
    assert encode_schedule(schedule) == body


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"cron": "* * * * *", "end_at": "soon"}, "end_at"),
        ({"cron": "* * * * *", "start_at": NINE, "end_at": NINE - timedelta(seconds=1)}, "end_at"),
        ({"cron": "* * * * *", "exclude": ["SUN"]}, "exclude"),
        ({"cron": "* * * * *", "exclude": {"weekday": ["SUN"]}}, "exclude"),
        ({"cron": "* * * * *", "exclude": {}}, "exclude"),
        ({"cron": "* * * * *", "exclude": {"dates": "2026-12-25"}}, "exclude.dates"),
        ({"cron": "* * * * *", "exclude": {"weekdays": 5}}, "exclude.weekdays"),
        ({"cron": ["* * * * *"]}, "cron"),
        ({"every": ["1h"]}, "every"),
        ({"cron": "* * * * *", "tz": ["UTC"]}, "tz"),
        ({"cron": "* * * * *", "exclude": {"dates": ["2026-02-30"]}}, "exclude.dates"),
        ({"cron": "* * * * *", "exclude": {"dates": [NINE]}}, "exclude.dates"),
        (
            {"cron": "* * * * *", "exclude": {"dates": [date(2026, 1, 1) + timedelta(n) for n in range(1001)]}},
            "exclude.dates",
        ),
        ({"cron": "* * * * *", "exclude": {"weekdays": ["SUNNY"]}}, "exclude.weekdays"),
        (
            {"cron": "* * * * *", "exclude": {"weekdays": ["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]}},
            "exclude.weekdays",
        ),
        ({"cron": "* * * * *", "exclude": {"weekdays": ["SUN"], "instead": "before"}}, "exclude.instead"),
        ({"every": "1h", "exclude": {"weekdays": ["SUN"], "instead": "next_day"}}, "exclude.instead"),
        ({"every": "R5"}, "every"),
        ({"every": "R5/2026-01-01/PT1H"}, "every"),
        ({"every": "R5/2026-01-01T00:00:00Z/2026-01-02T00:00:00Z"}, "every"),
        ({"every": "P0D"}, "every"),
        ({"run_in": "P1M"}, "run_in"),
        ({"run_in": "P100Y", "now": datetime(8999, 1, 1, tzinfo=UTC)}, "run_in"),
        ({"run_at": NINE, "tz": "UTC"}, "tz"),
        ({"run_at": NINE, "end_at": NINE}, "end_at"),
        ({"exclude": {"weekdays": ["SUN"]}}, "exclude"),
        ({"run_at": "2026-W10-1T09:00:00Z"}, "run_at"),
        ({"run_at": "20260302T090000Z"}, "run_at"),
        ({"run_at": "２０２６-03-02T09:00:00Z"}, "run_at"),
    ],
)
def test_what_cannot_be_used_is_named(given: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_schedule(**given)
    assert caught.value.field == field
    assert caught.value.message


def test_a_delay_through_the_calendar() -> None:
    now = datetime(2026, 3, 28, 8, tzinfo=UTC)
    assert make_schedule(run_in="P1M", now=datetime(2026, 1, 31, tzinfo=UTC)) == Once(
        at=datetime(2026, 2, 28, tzinfo=UTC)
    )
    assert make_schedule(run_in="P1D", tz="Europe/Berlin", now=now) == Once(at=now + timedelta(hours=23))
    assert make_schedule(run_in="P1D", now=now) == Once(delay=timedelta(days=1))
    assert make_schedule(run_in="PT24H", tz="Europe/Berlin", now=now) == Once(delay=timedelta(days=1))


def test_days_left_out_of_exact_steps() -> None:
    calendar = make_exclusion([date(2026, 3, 4)], ["SAT", "SUN"])
    every = Every(timedelta(hours=1), NINE, zone="Europe/Berlin", exclude=calendar)
    found = fires(every, NINE, 24 * 14)
    days = {fire.astimezone(BERLIN).date() for fire in found}
    assert not any(day.weekday() > 4 or day == date(2026, 3, 4) for day in days)
    assert date(2026, 3, 5) in days
    unfiltered = [NINE + timedelta(hours=number) for number in range(1, 24 * 30)]
    kept = [fire for fire in unfiltered if fire.astimezone(BERLIN).date() in days]
    assert found == kept[: len(found)]
    assert [every.latest_until(fire) for fire in found] == found


def test_a_schedule_that_falls_only_on_days_left_out_has_ended() -> None:
    calendar = make_exclusion(weekdays=["SUN"])
    for schedule in (
        Cron("0 9 * * SUN", exclude=calendar),
        Every(timedelta(0), datetime(2026, 3, 1, tzinfo=UTC), days=7, exclude=calendar),
        Every(timedelta(weeks=1), datetime(2026, 3, 1, tzinfo=UTC), exclude=calendar),
    ):
        assert schedule.next_after(NINE) is None
        assert schedule.latest_until(NINE) is None


def test_a_stored_calendar_that_leaves_no_day_says_so() -> None:
    calendar = Exclusion(weekdays=("MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"))
    for schedule in (Cron("0 9 * * *", exclude=calendar), Every(timedelta(0), NINE, days=1, exclude=calendar)):
        with pytest.raises(UnusableSchedule):
            schedule.next_after(NINE)


def test_two_fires_that_are_moved_to_one_moment_are_one() -> None:
    calendar = make_exclusion(weekdays=["SAT", "SUN"], instead="next_day")
    for daily in (
        Cron("0 9 * * *", exclude=calendar),
        Every(timedelta(0), datetime(2026, 2, 1, 9, tzinfo=UTC), days=1, exclude=calendar),
    ):
        found = fires(daily, datetime(2026, 3, 6, tzinfo=UTC), 3)
        assert [fire.day for fire in found] == [6, 9, 10]
        assert [daily.latest_until(fire + timedelta(hours=1)) for fire in found] == found


def test_an_exact_step_cannot_be_moved() -> None:
    calendar = make_exclusion(weekdays=["SUN"], instead="next_day")
    for every in (Every(timedelta(hours=1), NINE), Every(timedelta(hours=1), NINE, days=1)):
        moved = Every(every.interval, every.anchor, days=every.days, exclude=calendar)
        with pytest.raises(UnusableSchedule):
            moved.next_after(NINE)


def test_steps_to_the_end_of_time() -> None:
    for every in (
        Every(timedelta(0), NINE, months=1200, zone="Europe/Berlin"),
        Every(timedelta(0), NINE, days=36_525),
        Every(timedelta(days=36_525), NINE),
        Every(timedelta(0), NINE, months=1),
    ):
        for moment in (datetime(8999, 12, 31, tzinfo=UTC), datetime(9500, 1, 1, tzinfo=UTC)):
            following = every.next_after(moment)
            assert following is None or following.year < 9000
            latest = every.latest_until(moment)
            assert latest is not None
            assert latest.year > 8895
