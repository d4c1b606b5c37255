"""When a job runs: pure functions from a moment to the next fire."""

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.errors import InvalidInput
from duetime.model.schedule import (
    LATEST,
    NOW,
    Cron,
    Every,
    Once,
    Schedule,
    UnusableSchedule,
    check_moment,
    decode_schedule,
    encode_schedule,
    make_cron,
    make_schedule,
)

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
moments = st.datetimes(
    NINE.replace(year=2000, tzinfo=None), NINE.replace(year=2100, tzinfo=None), timezones=st.just(UTC)
)
intervals = st.timedeltas(timedelta(seconds=1), timedelta(days=1000))
lines = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "0 9 * * *", "30 2 * * *", "30 1 * * 7", "0 0 29 2 *", "15 10 L * *", "0 */5 * * 1-5"]
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"])


@given(intervals, moments, moments)
def test_an_interval_fires_on_its_grid(interval: timedelta, anchor: datetime, moment: datetime) -> None:
    every = Every(interval, anchor)
    following = every.next_after(moment)
    assert following is not None
    assert following > moment
    assert following >= anchor
    assert (following - anchor) % interval == timedelta(0)
    assert following - interval <= moment or following == anchor
    latest = every.latest_until(moment)
    if moment < anchor:
        assert latest is None
    else:
        assert latest == following - interval


@settings(max_examples=200)
@given(lines, zones, moments)
def test_the_latest_fire_of_a_cron_line_is_the_one_before_the_next(line: str, zone: str, moment: datetime) -> None:
    cron = Cron(line, zone)
    following, latest = cron.next_after(moment), cron.latest_until(moment)
    assert following is not None
    assert latest is not None
    assert latest <= moment < following
    assert following.tzinfo is UTC
    assert cron.next_after(latest) == following
    assert cron.latest_until(following) == following


@pytest.mark.parametrize(
    ("line", "zone", "moment", "fires"),
    [
        ("0 9 * * *", "UTC", NINE, [NINE + timedelta(days=1), NINE + timedelta(days=2)]),
        ("0 9 * * *", "UTC", NINE - timedelta(microseconds=1), [NINE]),
        ("0 9 * * MON", "Europe/Berlin", NINE, [datetime(2026, 3, 9, 8, tzinfo=UTC)]),
        # Clocks go forward on 2026-03-29: 09:00 stays 09:00.
        (
            "0 9 * * *",
            "Europe/Berlin",
            datetime(2026, 3, 28, 12, tzinfo=UTC),
            [datetime(2026, 3, 29, 7, tzinfo=UTC), datetime(2026, 3, 30, 7, tzinfo=UTC)],
        ),
        ("0 0 29 2 *", "UTC", NINE, [datetime(2028, 2, 29, tzinfo=UTC)]),
    ],
)
def test_cron_lines_name_wall_clock_times(line: str, zone: str, moment: datetime, fires: list[datetime]) -> None:
    cron = make_cron(line, zone)
    for expected in fires:
        found = cron.next_after(moment)
        assert found == expected
        moment = expected


@pytest.mark.parametrize("day", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)])
def test_a_daily_job_fires_once_on_days_that_change_the_clocks(day: datetime) -> None:
    cron = make_cron("30 2 * * *", "Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    fires = []
    moment: datetime | None = day - timedelta(days=2)
    while (moment := cron.next_after(moment)) is not None and moment < day + timedelta(days=2):  # type: ignore[arg-type]
        fires.append(moment.astimezone(zone).date())
    assert len(fires) == len(set(fires)) == 4


@pytest.mark.parametrize(
    ("given_by", "expected"),
    [
        ({}, NOW),
        ({"run_in": "90s"}, Once(delay=timedelta(seconds=90))),
        ({"run_in": 0}, Once(delay=timedelta(0))),
        ({"run_at": "2026-03-02T10:00:00+01:00"}, Once(at=NINE)),
        ({"run_at": NINE.astimezone(ZoneInfo("Asia/Tokyo"))}, Once(at=NINE)),
        ({"cron": " 0  9 * * * "}, Cron("0 9 * * *")),
        ({"cron": "0 9 * * MON-FRI", "tz": "Europe/Berlin"}, Cron("0 9 * * MON-FRI", "Europe/Berlin")),
        ({"every": "15m"}, Every(timedelta(minutes=15))),
        ({"every": 60, "start_at": NINE}, Every(timedelta(minutes=1), NINE)),
    ],
)
def test_what_callers_write(given_by: dict[str, Any], expected: Schedule) -> None:
    assert make_schedule(**given_by) == expected


def test_now_is_one_value() -> None:
    assert make_schedule() is NOW


@pytest.mark.parametrize(
    ("given_by", "field"),
    [
        ({"run_at": NINE, "cron": "* * * * *"}, "cron"),
        ({"run_in": 5, "every": 5}, "every"),
        ({"run_at": NINE.replace(tzinfo=None)}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"run_at": 1767225600}, "run_at"),
        ({"run_at": datetime(1969, 12, 31, tzinfo=UTC)}, "run_at"),
        ({"run_at": LATEST}, "run_at"),
        ({"run_at": datetime.max.replace(tzinfo=ZoneInfo("America/New_York"))}, "run_at"),
        ({"run_in": -5}, "run_in"),
        ({"run_in": float("nan")}, "run_in"),
        ({"run_in": float("inf")}, "run_in"),
        ({"run_in": "1 month"}, "run_in"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": "0 0 30 2 *"}, "cron"),
        ({"cron": ""}, "cron"),
        ({"cron": 5}, "cron"),
        ({"cron": "* * * * *", "tz": "Mars/Olympus"}, "tz"),
        ({"cron": "* * * * *", "tz": "../etc/passwd"}, "tz"),
        ({"cron": "* * * * *", "tz": 5}, "tz"),
        ({"tz": "UTC"}, "tz"),
        ({"every": "999ms"}, "every"),
        ({"every": 0}, "every"),
        ({"start_at": NINE}, "start_at"),
        ({"every": 5, "start_at": "soon"}, "start_at"),
    ],
)
def test_what_cannot_be_used_is_named(given_by: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_schedule(**given_by)
    assert caught.value.field == field


schedules = (
    st.builds(Once, at=st.none() | moments)
    | st.builds(Once, delay=intervals)
    | st.builds(Every, intervals, moments)
    | st.builds(Cron, lines, zones)
)


@given(schedules)
def test_a_stored_schedule_reads_back(schedule: Schedule) -> None:
    assert decode_schedule(encode_schedule(schedule)) == schedule


@pytest.mark.parametrize("body", [b"", b"{}", b'{"type":"lunar"}', b"\xff", b'{"type":"every"}'])
def test_a_schedule_that_cannot_be_read_says_so(body: bytes) -> None:
    with pytest.raises(UnusableSchedule):
        decode_schedule(body)


def test_a_zone_that_is_gone_says_so() -> None:
    with pytest.raises(UnusableSchedule, match="Mars/Olympus"):
        Cron("* * * * *", "Mars/Olympus").next_after(NINE)
    with pytest.raises(UnusableSchedule):
        Every(timedelta(seconds=1)).next_after(NINE)


@given(st.datetimes(timezones=st.timezones()))
def test_any_aware_time_is_in_range_or_refused(moment: datetime) -> None:
    try:
        found = check_moment(moment, "run_at")
    except InvalidInput:
        return
    assert found == moment.astimezone(UTC)
    assert found.tzinfo is UTC


def test_a_moment_of_a_subclass_can_be_stored() -> None:
    class Moment(datetime):
        """As pendulum and pandas have their own."""

    run_at = Moment(2030, 1, 1, 12, 30, 15, 7, ZoneInfo("Europe/Berlin"))
    schedule = make_schedule(run_at=run_at)
    assert isinstance(schedule, Once) and type(schedule.at) is datetime
    assert decode_schedule(encode_schedule(schedule)) == make_schedule(run_at=run_at.isoformat())
