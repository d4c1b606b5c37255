"""Cron lines: the dialect, its edges, and the days that zones have lost."""

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim

from duetime.errors import InvalidInput
from duetime.model.schedule import EARLIEST, LATEST, Cron, UnusableSchedule, make_cron, make_exclusion
from duetime.model.schedule.cron_field import DAY_OF_WEEK, MINUTE, read_field
from duetime.model.schedule.cron_line import read_line

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def local_days(line: str, zone: str, start: datetime, count: int) -> list[date]:
    cron, found, moment = make_cron(line, zone), [], start
    for _ in range(count):
        fire = cron.next_after(moment)
        assert fire is not None
        moment = fire
        found.append(fire)
    return [fire.date() for fire in found]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("60 * * * *", "the minute 60 is out of range (0 to 59)"),
        ("* 24 * * *", "the hour 24 is out of range (0 to 23)"),
        ("* * 0 * *", "the day of month 0 is out of range (1 to 31)"),
        ("* * 32 * *", "the day of month 32 is out of range (1 to 31)"),
        ("* * * 13 *", "the month 13 is out of range (1 to 12)"),
        ("* * * 0 *", "the month 0 is out of range (1 to 12)"),
        ("* * * * 8", "the day of week 8 is out of range (0 to 7)"),
        ("61 * * * * *", "the second 61 is out of range (0 to 59)"),
        ("*/0 * * * *", "the minute step 0 is out of range (1 to 59)"),
        ("0 */24 * * *", "the hour step 24 is out of range (1 to 23)"),
        ("*/x * * * *", "the minute step 'X' is not a number"),
        ("*/ * * * *", "the minute step '' is not a number"),
        ("*/1/2 * * * *", "the minute step '1/2' is not a number"),
        ("1,,2 * * * *", "the minute has an empty place in its list"),
        (", * * * *", "the minute has an empty place in its list"),
        ("1, * * * *", "the minute has an empty place in its list"),
        ("-5 * * * *", "the minute '' is not a number"),
        ("1-2-3 * * * *", "the minute '2-3' is not a number"),
        ("+5 * * * *", "the minute '+5' is not a number"),
        ("1_0 * * * *", "the minute '1_0' is not a number"),
        ("99999999999999999999 * * * *", "the minute '99999999999999999999' is not a number"),
        ("MON * * * *", "the minute 'MON' is not a number"),
        ("* * * * MO", "the day of week 'MO' is not a number"),
        ("* * * * L", "the day of week L is ambiguous"),
        ("* * * JANUAR *", "the month 'JANUAR' is not a number"),
        ("* * W * *", "the day of month 'W' is not known"),
        ("* * 32W * *", "the day of month 32 is out of range (1 to 31)"),
        ("* * 1-5W * *", "the day of month '1-5W' is not known"),
        ("* * L-0 * *", "the day of month L-0 counts 0 days back from the last"),
        ("* * L-31 * *", "the day of month L-31 counts 31 days back from the last"),
        ("? * * * *", "the minute '?' is not a number"),
        ("* * * ? *", "the month '?' is not a number"),
        ("0~29 * * * *", "the minute '0~29' is not a number"),
        ("0 0 9 * * MON 1969", "the year 1969 is out of range (1970 to 2199)"),
        ("0 0 9 * * MON 2030-2027", "the year range 2030-2027 runs backwards"),
        ("0 0 9 * * MON 2027/0", "the year step 0 is out of range"),
        ("0 0 9 29 2 * 2027", "never fires"),
        ("0 0 9 * * 1 2027", "a number as day of week is ambiguous"),
        ("0 0 9 ? * 2", "a number as day of week is ambiguous"),
        ("0 9 ? * 2-6", "a number as day of week is ambiguous"),
        ("0 9 * * MON 2027", "the last is the day of week, not a year"),
        ("0 10 * * ? *", "these seem to end with a year"),
        ("0 10 ? * MON-FRI *", "these seem to end with a year"),
        ("H(9-5) * * * *", "the minute H(9-5) is out of range"),
        ("H(0-60) * * * *", "the minute H(0-60) is out of range"),
        ("H/61 * * * *", "the minute step 61 is out of range (1 to 60)"),
        ("H-5 * * * *", "the minute 'H-5' is not known"),
        ("0 0 9 * * MON H", "the year 'H' is not a number"),
        ("; ".join(["0 9 * * *"] * 25), "25 cron lines are too many"),
        ("0 9 * * *;", "has 0 fields"),
        ("* * * * MON#0", "the day of week MON#0 asks for number 0"),
        ("* * * * MON#", "the day of week MON# asks for number nothing"),
        ("* * * * #2", "the day of week '' is not a number"),
        ("* * * * 8#2", "the day of week 8 is out of range (0 to 7)"),
        ("0 0 31 2,4,6,9,11 *", "never fires"),
        ("0 0 */30 2 MON#5", "never fires"),
        ("* * * *", "has 4 fields"),
        ("* * * * * * * *", "has 8 fields"),
        ("", "has 0 fields"),
        ("@fortnightly", "'@fortnightly' is not a word of cron"),
        ("٣ * * * *", "is not a cron line"),
        ("¼ * * * *", "is not a cron line"),
        ("* " * 300, "is not a cron line"),
    ],
)
def test_a_mistake_is_refused_by_the_name_of_its_field(line: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        make_cron(line, "UTC")
    assert caught.value.field == "cron"
    assert message in caught.value.message


def test_what_a_field_means() -> None:
    assert read_field(MINUTE, "5/20").values == (5, 25, 45)
    assert read_field(MINUTE, "10-20/5,0").values == (0, 10, 15, 20)
    assert read_field(MINUTE, "15-15/3").values == (15,)
    assert read_field(DAY_OF_WEEK, "5-7").values == (0, 5, 6)
    assert read_field(DAY_OF_WEEK, "7").values == (0,)
    assert read_field(DAY_OF_WEEK, "sun,Mon").values == (0, 1)
    assert read_field(DAY_OF_WEEK, "1/2").values == (1, 3, 5)


@pytest.mark.parametrize("line", ["0 0 13 * FRI", "0 0 13 * 5,5L"])
def test_two_restricted_days_are_either(line: str) -> None:
    assert local_days(line, "UTC", datetime(2026, 3, 1, tzinfo=UTC), 4) == [
        date(2026, 3, 6),
        date(2026, 3, 13),
        date(2026, 3, 20),
        date(2026, 3, 27),
    ]
    assert date(2026, 4, 13) in local_days(line, "UTC", datetime(2026, 4, 1, tzinfo=UTC), 4)


def test_a_day_field_that_starts_with_a_star_does_not_restrict() -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    assert local_days("0 0 */2 * MON", "UTC", start, 3) == [date(2026, 3, 9), date(2026, 3, 23), date(2026, 4, 13)]
    assert local_days("0 0 13 * */2", "UTC", start, 2) == [date(2026, 6, 13), date(2026, 8, 13)]


def test_the_rarest_day_is_found() -> None:
    monday_29_february = make_cron("0 0 * 2 MON#5", "UTC")
    assert monday_29_february.next_after(datetime(2073, 1, 1, tzinfo=UTC)) == datetime(2112, 2, 29, tzinfo=UTC)
    assert monday_29_february.latest_until(datetime(2112, 2, 1, tzinfo=UTC)) == datetime(2072, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("zone", "lost"),
    [
        ("Pacific/Apia", date(2011, 12, 30)),
        ("Pacific/Fakaofo", date(2011, 12, 30)),
        ("Pacific/Kwajalein", date(1993, 8, 21)),
        ("Pacific/Kiritimati", date(1994, 12, 31)),
        ("Pacific/Kanton", date(1994, 12, 31)),
    ],
)
@pytest.mark.parametrize("line", ["0 9 * * *", "0 0 * * *", "*/30 * * * *", "59 59 23 * * *", "0 */5 * * *"])
def test_a_day_that_a_zone_skipped_is_skipped(zone: str, lost: date, line: str) -> None:
    cron = make_cron(line, zone)
    midday = datetime(lost.year, lost.month, lost.day, 12, tzinfo=UTC)
    moment, fires = midday - timedelta(days=4), []
    while moment < midday + timedelta(days=4):
        found = cron.next_after(moment)
        assert found is not None
        assert found > moment
        fires.append(found)
        assert cron.latest_until(found) == found
        if len(fires) > 1:
            assert cron.latest_until(found - timedelta(microseconds=1)) == fires[-2]
        moment = found
    per_day = {"0 9 * * *": 1, "0 0 * * *": 1, "*/30 * * * *": 48, "59 59 23 * * *": 1, "0 */5 * * *": 5}[line]
    # Eight days by UTC, of which this clock shows all but one: a fire more or less at either end.
    assert abs(len(fires) - per_day * 8) <= per_day + 1
    if per_day == 48:
        assert {b - a for a, b in pairwise(fires)} == {timedelta(minutes=30)}


def test_nothing_is_owed_for_a_day_that_a_zone_skipped() -> None:
    eve, after_it = date(2011, 12, 29), datetime(2011, 12, 31, 9, tzinfo=ZoneInfo("Pacific/Apia"))
    calendar = make_exclusion([eve], instead="next_day")
    start, end = datetime(2011, 12, 28, tzinfo=UTC), datetime(2012, 1, 2, tzinfo=UTC)
    for line, expected in (("0 9 30 12 *", None), ("0 9 29 12 *", after_it), ("0 9 29,30 12 *", after_it)):
        cron = Cron(line, "Pacific/Apia", exclude=calendar)
        following, latest = cron.next_after(start), cron.latest_until(end)
        assert following is not None
        assert latest is not None
        assert (following if following < end else None) == expected
        assert (latest if latest > start else None) == expected


def test_the_ends_of_time() -> None:
    for line in ("* * * * * *", "0 0 1 1 *", "59 23 31 12 *", "*/7 * * * *"):
        for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Niue"):
            cron = make_cron(line, zone)
            for moment in (LATEST, LATEST + timedelta(days=300_000), datetime.max.replace(tzinfo=UTC)):
                assert cron.next_after(moment) is None
                latest = cron.latest_until(moment)
                assert latest is not None
                assert LATEST - timedelta(days=367) < latest < LATEST
            following = cron.next_after(LATEST - timedelta(hours=1))
            assert following is None or following < LATEST
            first = cron.next_after(datetime.min.replace(tzinfo=UTC))
            assert first is not None
            assert EARLIEST <= first < EARLIEST + timedelta(days=367)
            assert cron.latest_until(EARLIEST - timedelta(seconds=1)) is None


def test_a_stored_line_that_cannot_be_read_says_so() -> None:
    with pytest.raises(UnusableSchedule, match="out of range"):
        Cron("99 * * * *").next_after(NINE)


@pytest.mark.parametrize("seed", range(4))
def test_wall_times_are_those_of_cronsim(seed: int) -> None:
    """A third opinion, on wall times alone: the library's own walk, second by second."""
    random = Random(seed)
    for _ in range(150):
        line = " ".join(
            [
                random.choice(["0", "*/20", "7,40"]),
                random.choice(["*", "*/7", "0,30", "59", "10-20/3"]),
                random.choice(["*", "*/5", "0", "9-17", "23"]),
                random.choice(["*", "*", "L", "LW", "1,15", "*/10", "29-31"]),
                random.choice(["*", "*", "2", "FEB,JUN", "*/5"]),
                random.choice(["*", "*", "MON-FRI", "5L", "TUE#2", "0", "7", "*/3"]),
            ]
        )
        start = datetime(2024, 1, 1) + timedelta(seconds=random.randint(0, 4 * 366 * 86_400))  # noqa: DTZ001
        forward, backward = CronSim(line, start), CronSim(line, start, reverse=True)
        try:
            read = read_line(line)
        except InvalidInput:
            assert next(forward, None) is None
            continue
        moment = start
        for _ in range(5):
            found = read.first_from(moment + timedelta(seconds=1))
            assert found == next(forward), f"{line} after {moment}"
            assert found in read
            moment = found
        moment = start
        for _ in range(5):
            found = read.last_until(moment - timedelta(seconds=1))
            assert found == next(backward), f"{line} before {moment}"
            moment = found
