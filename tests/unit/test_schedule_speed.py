"""What a herd costs: the scanner computes the next fires of a whole batch between two looks at the database."""

from datetime import UTC, date, datetime, timedelta
from random import Random
from time import process_time

import pytest

from duetime.errors import InvalidInput
from duetime.model.schedule import Once, make_cron, make_rrule, make_schedule, preview
from duetime.model.schedule.allowed import AllowedDays
from duetime.model.schedule.cron_line import read_lines
from tests.support.texts import cron_lines

DUE = datetime(2026, 3, 29, 0, 30, tzinfo=UTC)
MOST = 0.05
"""Seconds for which one request may keep the event loop."""


def test_a_hundred_thousand_next_fires_take_a_second() -> None:
    crons = cron_lines(1000)
    began = process_time()
    for number in range(100_000):
        cron = crons[number % 1000]
        following = cron.next_after(DUE)
        assert following is not None
    took = process_time() - began
    assert took < 1.0, f"{took:.2f} s"


def test_fires_that_no_other_job_shares_are_cheap_too() -> None:
    crons = cron_lines(1000)
    random = Random(6)
    moments = [DUE + timedelta(seconds=random.randrange(86_400 * 365)) for _ in range(10_000)]
    began = process_time()
    for number, moment in enumerate(moments):
        crons[number % 1000].next_after(moment)
        crons[number % 1000].latest_until(moment)
    each = (process_time() - began) / len(moments) / 2
    assert each < 100e-6, f"{each * 1e6:.0f} µs"


DAYS = 10_000
"""Ten calendars of a thousand days: what one job may leave out."""
TODAY = DUE.date()
IN_A_ROW = [TODAY + timedelta(days=number) for number in range(DAYS)]
WALKS = [("cron", "0 9 * * *"), ("cron", "* * * * *"), ("every", "P1D"), ("every", "P2D")]
EVERY_OTHER = [TODAY + timedelta(days=2 * number) for number in range(DAYS)]


@pytest.mark.parametrize("days", [IN_A_ROW, EVERY_OTHER], ids=["in a row", "every other"])
@pytest.mark.parametrize(
    ("when", "instead"),
    [
        *(({kind: text}, instead) for kind, text in WALKS for instead in ("skip", "next_day")),
        ({"every": "PT48H"}, "skip"),
    ],
    ids=str,
)
def test_fires_among_ten_thousand_excluded_days_cost_a_few_looks_each(
    when: dict[str, str], instead: str, days: list[date], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in days that are looked at, not in seconds: a walk passes excluded days that touch in one step."""
    looks = 0

    def counted(self: AllowedDays, day: date) -> bool:
        nonlocal looks
        looks += 1
        return contains(self, day)

    contains = AllowedDays.__contains__
    monkeypatch.setattr(AllowedDays, "__contains__", counted)
    schedule = make_schedule(**when, tz="Europe/Berlin", start_at=DUE, exclude={"calendars": ["a"], "instead": instead})
    assert not isinstance(schedule, Once)
    count = 300
    assert len(preview(schedule.holding(days), "Europe/Berlin", DUE, count)) == count
    # One look at each excluded day, where each is a block of its own; some for each step of a search by halves.
    assert looks < 4 * DAYS + 100 * count


HOSTILE = [
    "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30;BYHOUR=1;BYMINUTE=1",
    "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30,31;BYHOUR=1;BYMINUTE=1",
    "FREQ=WEEKLY;BYDAY=MO;BYSETPOS=7;BYHOUR=1;BYMINUTE=1",
    "FREQ=YEARLY;BYWEEKNO=53;BYMONTH=6;BYDAY=MO;BYHOUR=1;BYMINUTE=1",
    "FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=29;BYDAY=MO;BYYEARDAY=60",
    "FREQ=YEARLY;BYDAY=MO,TU,WE,TH,FR,SA,SU;BYSETPOS=366;BYHOUR=1;BYMINUTE=1",
    "DTSTART:19700101T000000 RRULE:FREQ=SECONDLY;COUNT=1000000000",
    "DTSTART:19700101T000000 RRULE:FREQ=DAILY;COUNT=1000000000",
    "DTSTART:19700101T000000 RRULE:FREQ=YEARLY;INTERVAL=9999;BYMONTH=2;BYMONTHDAY=29",
    "DTSTART:19700101T000000 RRULE:FREQ=MONTHLY;INTERVAL=10000",
    "DTSTART:19700101T000000 RRULE:FREQ=SECONDLY;INTERVAL=7",
    "DTSTART:19700101T000000 RRULE:FREQ=MINUTELY;INTERVAL=1439;BYDAY=MO",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_rule_keeps_the_event_loop_busy(text: str) -> None:
    """However old its DTSTART is, and even if it names no day at all."""
    began = process_time()
    try:
        rule = make_rrule(text)
    except InvalidInput:
        rule = None
    took = process_time() - began
    assert took < MOST, f"reading it took {took * 1e3:.0f} ms"
    if rule is None:
        return
    began = process_time()
    rule.next_after(DUE)
    rule.latest_until(DUE)
    took = process_time() - began
    assert took < MOST, f"asking it took {took * 1e3:.0f} ms"


def test_fires_of_rules_cost_what_those_of_cron_lines_do() -> None:
    rules = [make_rrule(text, "Europe/Berlin") for text in RULES]
    random = Random(6)
    moments = [DUE + timedelta(seconds=random.randrange(86_400 * 365)) for _ in range(5_000)]
    began = process_time()
    for number, moment in enumerate(moments):
        rules[number % len(rules)].next_after(moment)
        rules[number % len(rules)].latest_until(moment)
    each = (process_time() - began) / len(moments) / 2
    assert each < 100e-6, f"{each * 1e6:.0f} µs"


RULES = [
    "FREQ=WEEKLY;BYDAY=MO,TH;BYHOUR=9;BYMINUTE=0",
    "DTSTART:19700101T000000 RRULE:FREQ=SECONDLY;INTERVAL=7",
    "DTSTART:19970901T090000 RRULE:FREQ=MONTHLY;INTERVAL=2;BYDAY=-1FR",
    "DTSTART:19970901T090000 RRULE:FREQ=DAILY;INTERVAL=3",
]


def test_a_preview_of_the_longest_schedule_is_short() -> None:
    many = make_cron("; ".join(f"{minute} 9-17 * * MON#1" for minute in range(24)), "Europe/Berlin")
    began = process_time()
    assert len(preview(many, "Europe/Berlin", DUE, 100)) == 100
    took = process_time() - began
    assert took < MOST, f"{took * 1e3:.0f} ms"


WEEKDAYS = ("MON", "TUE", "WED", "THU", "FRI")


@pytest.mark.parametrize(
    "when",
    [
        {"cron": "0 9 * * MON-FRI"},
        {"cron": "; ".join(f"{minute} 9 * * MON-FRI" for minute in range(24))},
        {"cron": "; ".join(f"{minute} 9 15W,LW * MON#1,FRIL" for minute in range(15))},
        {"cron": "*/5 * 13 * +FRI"},
        {"rrule": "FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR;BYHOUR=9;BYMINUTE=0"},
        {"rrule": "DTSTART:19700105T000001 RRULE:FREQ=SECONDLY;INTERVAL=9999;BYDAY=MO"},
    ],
    ids=str,
)
def test_excluded_weekdays_that_leave_nothing_are_seen_at_once(when: dict[str, str]) -> None:
    """Not after a look at every such day of a century, in the middle of a transaction."""
    schedule = make_schedule(**when, tz="Europe/Berlin", exclude={"weekdays": WEEKDAYS})
    assert not isinstance(schedule, Once)
    began = process_time()
    assert schedule.next_after(DUE) is None
    assert schedule.latest_until(DUE) is None
    took = process_time() - began
    assert took < MOST / 2, f"{took * 1e3:.0f} ms"


@pytest.mark.parametrize(
    "days",
    [
        *("* * *", "* * MON", "13 * FRI", "13 * +FRI", "*/2 * MON-WED", "15W * *", "LW * *", "1W * SUN", "15W,L * *"),
        *("L-3 * *", "L * +SAT", "* * TUE#2", "* * SUNL,MON#1", "15W * +SAT,MON", "1 * SAT#5", "? * SUN-SAT"),
    ],
)
def test_days_fall_on_the_weekdays_that_they_say(days: str) -> None:
    [line] = read_lines(f"0 9 {days}")
    day, found = TODAY, set()
    for _ in range(400):
        following = line.days.first_from(day)
        assert following is not None
        found.add(following.weekday())
        day = following + timedelta(days=1)
    assert found <= line.days.weekdays
