"""Forecasts: runs counted by stretches of time, exactly where that is possible; where not, within a bound, and said."""

from datetime import UTC, datetime, timedelta
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.ids import new_id, run_id
from duetime.model.fire_rate import rhythm_of
from duetime.model.forecast import Forecast, forecast, runs_at_rate, runs_of
from duetime.model.job import Options, encode_options
from duetime.model.overview import Ahead, ComingJob
from duetime.model.policy import Misfire
from duetime.model.schedule import Cron, Every, Recurring, encode_schedule, make_cron, make_exclusion
from duetime.model.withdrawn_runs import Withdrawn, encode_owed

START = datetime(2026, 3, 2, tzinfo=UTC)
SECOND, MINUTE, HOUR, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)


def coming(schedule: Recurring, at: datetime, *, queue: str = "q", made: int = 0, **options: object) -> ComingJob:
    body = encode_options(Options(**options))  # type: ignore[arg-type]
    return ComingJob(new_id(), queue, True, encode_schedule(schedule), body, at, made)


def daily(at: datetime = START + 9 * HOUR, line: str = "0 9 * * *", **options: object) -> ComingJob:
    return coming(make_cron(line, "UTC"), at, **options)  # type: ignore[arg-type]


def every(interval: timedelta) -> ComingJob:
    return coming(Every(interval, anchor=START, first=1), START + interval)


def ahead(*jobs: ComingJob, there: int | None = None, now: datetime = START) -> Ahead:
    return Ahead(now, jobs, {}, len(jobs), there or len(jobs))


def week_of(*jobs: ComingJob, **what: int) -> Forecast:
    return forecast(ahead(*jobs, **what), START, HOUR, 168)


def week(*jobs: ComingJob, **what: int) -> dict[int, int]:
    return {number: count for (number, _), count in week_of(*jobs, **what).counts.items()}


def test_a_daily_job_fires_once_a_day() -> None:
    assert week(daily()) == {9 + 24 * day: 1 for day in range(7)}


def test_jobs_with_one_schedule_fire_together() -> None:
    assert week(*(daily() for _ in range(5000)))[9] == 5000


def test_what_one_of_them_is_owed_is_counted_for_that_one_only() -> None:
    """Runs of it were withdrawn, so they are made up for when it is resumed; the other one has the same rhythm."""
    job = daily(START + 33 * HOUR, misfire=Misfire("all", age=1e6))
    withdrawn = [Withdrawn(run_id(job.job_id, START + n * HOUR), START + n * HOUR) for n in (1, 2)]
    owing = msgspec.structs.replace(job, owed=encode_owed(None, withdrawn))
    for jobs in ((owing, job), (job, owing)):
        found = forecast(ahead(*jobs, now=START + 10 * HOUR), START, DAY, 2)
        assert found.counts == {(0, "q"): 2, (1, "q"): 2}


def test_a_window_that_starts_ahead_counts_the_jobs_that_fire_before_it_too() -> None:
    found = forecast(ahead(daily(), every(10 * MINUTE)), START + 10 * HOUR, HOUR, 24)
    assert found.exact and found.counts == {(number, "q"): 6 + (number == 23) for number in range(24)}


def test_a_window_that_starts_in_the_past_counts_what_is_still_to_come() -> None:
    now = START + 10 * HOUR
    found = forecast(ahead(daily(START + 33 * HOUR), now=now), START, HOUR, 168)
    assert found.exact and found.counts == {(9 + 24 * day, "q"): 1 for day in range(1, 7)}


def test_what_was_missed_is_counted_as_it_will_be_made_up_for() -> None:
    now = START + 75 * HOUR
    late = [daily(misfire=mode) for mode in (Misfire("latest"), Misfire("skip"), Misfire("all", age=1e6))]
    found = [forecast(ahead(each, now=now), START, DAY, 5).counts for each in late]
    assert found == [{(n, "q"): 1 for n in (2, 3, 4)}, {(n, "q"): 1 for n in (3, 4)}, {(n, "q"): 1 for n in range(5)}]


def test_a_job_that_may_not_run_more_often_ends() -> None:
    assert week(daily(max_runs=3, made=1)) == {9: 1, 33: 1}
    often = coming(Every(MINUTE, START), START + MINUTE, max_runs=100)
    assert forecast(ahead(often), START, HOUR, 3).counts == {(0, "q"): 59, (1, "q"): 41}
    assert forecast(ahead(often), START + HOUR, HOUR, 3).counts == {(0, "q"): 41}


def test_a_sample_stands_for_the_rest_and_says_so() -> None:
    found = week_of(daily(), there=250)
    assert (found.counts[33, "q"], found.exact) == (250, False)
    assert found.notes == ("a random sample of 1 of 250 jobs was read: each stands for 250.0",)


def test_a_job_that_fires_all_the_time_is_counted_exactly() -> None:
    found = week_of(every(5 * SECOND), coming(Cron("* * * * * *"), START, queue="s"))
    counts = found.counts
    assert found.exact and {counts[number, "q"] for number in range(1, 168)} == {720} and counts[0, "q"] == 719
    assert {counts[number, "s"] for number in range(168)} == {3600}


def test_office_hours_are_not_taken_for_the_pace_of_the_night() -> None:
    found = week_of(daily(START + 9 * HOUR, "*/5 9-16 * * MON-FRI"))
    assert found.exact
    assert found.counts == {(24 * day + hour, "q"): 12 for day in range(5) for hour in range(9, 17)}


def test_jitter_moves_fires_within_its_bound() -> None:
    counts = week(*(daily(jitter=7200.0) for _ in range(200)))
    assert set(counts) <= {hour + 24 * day for day in range(7) for hour in (9, 10)}
    assert 60 < counts[9] < 140 and counts[9] + counts[10] == 200


def test_overlap_makes_it_an_estimate() -> None:
    found = week_of(daily(overlap="skip"))
    assert len(found.counts) == 7 and not found.exact and "overlap" in found.notes[0]
    assert week_of(daily(overlap="replace")).exact


def test_a_schedule_that_cannot_be_computed_has_no_run_and_stops_no_other() -> None:
    gone = coming(Cron("0 9 * * *", "Mars/Olympus"), START + 9 * HOUR)
    assert week(gone, daily()) == week(daily())


def test_the_work_is_bounded() -> None:
    """Of jobs that fire at different times, so many are walked through as the budget allows; they stand for all."""
    many = [every(timedelta(minutes=50, seconds=number)) for number in range(3000)]
    found = week_of(*many)
    assert not found.exact and "of 3,000 recurring jobs were computed" in found.notes[0]
    expected = sum(7 * DAY // timedelta(minutes=50, seconds=n) for n in range(3000))
    assert abs(sum(found.counts.values()) / expected - 1) < 0.1


def test_a_job_takes_a_bounded_share_of_the_work() -> None:
    """However often it fires: each stretch is counted in one step."""
    fires = [coming(Cron("* * * * * *"), START + number * SECOND) for number in range(40)]
    assert forecast(ahead(*fires), START, HOUR, 400).exact


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_what_is_listed_is_what_is_counted(zone: str) -> None:
    random = Random(7)
    for _ in range(100):
        line = random.choice(["*/7 * * * *", "0 2 * * *", "30 9 * * MON", "0 0 1 * *"])
        one = coming(Cron(line, zone), Cron(line, zone).next_after(START) or START, jitter=random.choice((0.0, 900.0)))
        start = START + random.uniform(0, 6) * DAY
        end = start + random.uniform(0.01, 2) * DAY
        counted = forecast(ahead(one), start, end - start, 1).counts
        assert runs_of(one, START, start, end) == counted.get((0, "q"), 0)


moments = st.datetimes(datetime(2026, 3, 1), datetime(2026, 4, 10), timezones=st.just(UTC))  # noqa: DTZ001
lines = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "15 2 * * *", "*/20 1-3 * * *", "0 9 * * MON-FRI", "*/30 * 2 * * *"]
)
schedules = st.one_of(
    st.builds(
        Cron,
        lines,
        st.sampled_from(["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"]),
        exclude=st.sampled_from([None, make_exclusion(weekdays=("SUN",)), make_exclusion(weekdays=("SAT", "SUN"))]),
        end_at=st.none() | moments,
    ),
    st.builds(
        Every,
        st.sampled_from([7 * MINUTE, 90 * MINUTE, 31 * HOUR]),
        moments,
        first=st.sampled_from([0, 1]),
        count=st.sampled_from([None, 1, 20]),
        start_at=st.none() | moments,
    ),
)


@given(schedules, moments, st.timedeltas(timedelta(), timedelta(days=4)))
def test_fires_are_counted_as_they_are_walked(schedule: Recurring, after: datetime, length: timedelta) -> None:
    until = after + length
    walked, fire = 0, schedule.next_after(after)
    while fire is not None and fire <= until:
        walked += 1
        fire = schedule.next_after(fire)
    assert schedule.count_between(after, until, 1_000_000) == walked


def at_rate(rate: float, *jobs: ComingJob, now: datetime = START) -> Ahead:
    return msgspec.structs.replace(ahead(*jobs, now=now), fires_per_second=rate)


def test_a_rate_above_all_fires_changes_nothing_however_many_there_are() -> None:
    """Ten thousand hourly jobs fire more often in five weeks than could be computed one by one."""
    jobs = [daily(START + HOUR, f"{number % 60} * * * *") for number in range(9_000)]
    found = forecast(at_rate(100.0, *jobs), START, HOUR, 840)
    assert found.exact and found == forecast(ahead(*jobs), START, HOUR, 840)


@pytest.mark.parametrize("rate", (0.01, 1.0, 7.0))
def test_a_rate_that_is_used_up_bounds_the_fires(rate: float) -> None:
    jobs = [every(SECOND) for _ in range(10)]
    found = forecast(at_rate(rate, *jobs), START, MINUTE, 10)
    assert not found.exact and f"rate of {rate:g} per second" in found.notes[0]
    assert sum(found.counts.values()) == pytest.approx(600 * rate, abs=12 + 60 * rate)
    assert sum((runs_at_rate(at_rate(rate, *jobs), START, START + 10 * MINUTE) or {}).values()) == sum(
        found.counts.values()
    )


def test_fires_that_are_only_delayed_are_counted_when_they_are_due() -> None:
    found = forecast(at_rate(1.0, *(daily() for _ in range(3000))), START, HOUR, 24)
    assert found.exact and found.counts == {(9, "q"): 3000}


def test_a_delay_that_a_misfire_policy_does_not_tolerate_is_estimated() -> None:
    jobs = [daily(misfire=Misfire("skip", after=60.0)) for _ in range(3000)]
    jobs = [msgspec.structs.replace(each, scan_at=each.next_fire_at) for each in jobs]
    found = forecast(at_rate(1.0, *jobs), START, HOUR, 24)
    assert not found.exact
    assert found.counts[9, "q"] == pytest.approx(60, abs=3)


@pytest.mark.parametrize("place", range(4))
def test_jobs_that_come_up_together_may_fire_in_any_order(place: int) -> None:
    jobs = [daily(misfire=Misfire("skip", after=3600.0)) for _ in range(3)]
    jobs.insert(place, daily(misfire=Misfire("skip", after=5.0)))
    jobs = [msgspec.structs.replace(each, scan_at=each.next_fire_at) for each in jobs]
    assert not forecast(at_rate(0.5, *jobs), START, HOUR, 24).exact


def test_more_fires_than_can_be_ordered_are_held_to_the_rate() -> None:
    jobs = [every(SECOND) for _ in range(300)]
    found = forecast(at_rate(100.0, *jobs), START, MINUTE, 60)
    assert not found.exact and "too many fires" in found.notes[-1]
    assert all(count <= 6_300 for count in found.counts.values())
    assert found.counts[59, "q"] == 6_000


def test_a_sample_is_held_to_its_part_of_the_rate() -> None:
    sample = msgspec.structs.replace(at_rate(10.0, *(every(SECOND) for _ in range(100))), looked=100, there=1000)
    found = forecast(sample, START, MINUTE, 2)
    assert sum(found.counts.values()) == pytest.approx(1200, rel=0.2)


@pytest.mark.parametrize(
    "line, zone, least",
    [
        ("* * * * *", "UTC", 60.0),
        ("*/20 * * * *", "UTC", 1200.0),
        ("5,59 * * * *", "UTC", 360.0),
        ("0 9-17 * * *", "UTC", 3600.0),
        ("0 9 * * *", "UTC", 72_000.0),
        ("*/5 * * * * *", "UTC", 1.0),
        ("0 9 * * *", "Europe/Berlin", 60.0),
        ("0 9 * * *; 1 9 * * *", "UTC", 60.0),
    ],
)
def test_how_often_a_line_can_fire(line: str, zone: str, least: float) -> None:
    rhythm = rhythm_of(make_cron(line, zone))
    assert rhythm is not None and rhythm.least == least
