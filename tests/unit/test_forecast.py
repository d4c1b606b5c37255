"""Forecasts: fires counted by stretches of time, exactly where that is possible, and within a bound."""

from datetime import UTC, datetime, timedelta

from duetime.ids import new_id
from duetime.model import forecast as module
from duetime.model.figures import Ahead, Stretch, Upcoming
from duetime.model.forecast import forecast
from duetime.model.job import Options, encode_options
from duetime.model.schedule import Every, encode_schedule, make_cron

START = datetime(2026, 3, 2, tzinfo=UTC)
HOUR, DAY, MINUTE = timedelta(hours=1), timedelta(days=1), timedelta(minutes=1)


def first(at: datetime, line: str = "0 9 * * *", **options: object) -> Upcoming:
    schedule = encode_schedule(make_cron(line, "UTC"))
    return Upcoming(at, "q", 0, new_id(), schedule, encode_options(Options(**options)))  # type: ignore[arg-type]


def every(interval: timedelta) -> Upcoming:
    schedule = encode_schedule(Every(interval, anchor=START, first=1))
    return Upcoming(START + interval, "q", 0, new_id(), schedule)


def week(*upcoming: Upcoming, stretch: Stretch = Stretch()) -> dict[int, int]:  # noqa: B008
    found = forecast(Ahead(upcoming, [stretch]), START, HOUR, 168)
    return {number: count for (number, _), count in found.counts.items()}


def test_a_daily_job_fires_once_a_day() -> None:
    assert week(first(START + 9 * HOUR)) == {9 + 24 * day: 1 for day in range(7)}


def test_jobs_with_one_schedule_fire_together() -> None:
    assert week(*(first(START + 9 * HOUR) for _ in range(5000)))[9] == 5000


def test_a_sample_stands_for_the_rest() -> None:
    assert week(first(START + 9 * HOUR), stretch=Stretch(looked=1, there=250))[33] == 250


def test_a_job_that_fires_all_the_time_is_counted_by_its_pace() -> None:
    counts = week(every(timedelta(seconds=5)))
    assert len(counts) == 168 and all(719 <= count <= 721 for count in counts.values())


def test_jitter_moves_fires_within_its_bound() -> None:
    counts = week(*(first(START + 9 * HOUR, jitter=7200.0) for _ in range(200)))
    assert set(counts) <= {hour + 24 * day for day in range(7) for hour in (9, 10)}
    assert 60 < counts[9] < 140 and counts[9] + counts[10] == 200


def test_the_work_is_bounded(monkeypatch: object) -> None:
    steps = 0
    follow = module._Forecaster.follow

    def counted(*arguments: object) -> int:
        nonlocal steps
        made = follow(*arguments)  # type: ignore[arg-type]
        steps += made
        return made

    monkeypatch.setattr(module._Forecaster, "follow", counted)  # type: ignore[attr-defined]
    many = [every(timedelta(minutes=50, seconds=number)) for number in range(3000)]
    counts = week(*many)
    assert steps <= module.MOST_STEPS + 3000 * 8
    assert abs(sum(counts.values()) - sum(7 * DAY // timedelta(minutes=50, seconds=n) for n in range(3000))) < 6000
