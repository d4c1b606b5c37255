"""The sentence of a schedule is compared with its fires."""

import re
from datetime import UTC, datetime, time, timedelta
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from duetime.model.schedule import Recurring, explain, make_cron, make_rrule, parse_schedule
from duetime.model.schedule.describe_cron import MONTH_NAMES, WEEKDAY_NAMES

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 3, 27, 10, tzinfo=UTC)
_CLOCK = re.compile(r"\b[0-9]{2}:[0-9]{2}(?::[0-9]{2})?\b")
_WEEK = [*WEEKDAY_NAMES[1:], WEEKDAY_NAMES[0]]

minutes = st.one_of(
    st.sampled_from(["*", "0", "1", "30", "59", "*/15", "*/7", "*/40", "0,30", "5-10", "50-10", "5/20", "0-30/10"]),
    st.integers(0, 59).map(str),
)
hours = st.one_of(
    st.sampled_from(["*", "0", "9-17", "22-2", "*/2", "*/5", "*/6", "1/2", "9,12,15", "0-23", "8-18/2", "23", "9-10"]),
    st.builds(lambda one, other: f"{one}-{other}", st.integers(0, 23), st.integers(0, 23)),
)
seconds = st.sampled_from(["0", "0", "0", "0", "30", "*/20", "15,45"])
days_of_week = st.sampled_from(["*", "*", "MON-FRI", "FRI-MON", "SUN", "MON,WED", "*/2", "SAT-SUN", "1-5", "5-7"])
months = st.sampled_from(["*", "*", "*", "JAN", "NOV-FEB", "1,4,7,10", "*/3", "6-8"])
lines = st.builds(
    lambda second, minute, hour, month, week: f"{second} {minute} {hour} * {month} {week}",
    seconds,
    minutes,
    hours,
    months,
    days_of_week,
)


def fires(schedule: Recurring, start: datetime, end: datetime) -> list[datetime]:
    found, moment = [], start - timedelta(microseconds=1)
    while (following := schedule.next_after(moment)) is not None and following < end:
        found.append(following)
        moment = following
    return found


def a_day(schedule: Recurring) -> list[time]:
    """The times of the first day on which it fires."""
    first = schedule.next_after(START - timedelta(microseconds=1))
    assert first is not None
    midnight = first.replace(hour=0, minute=0, second=0)
    return [fire.time() for fire in fires(schedule, midnight, midnight + timedelta(days=1))]


@settings(max_examples=400, deadline=None)
@given(lines)
def test_the_times_that_a_sentence_names(line: str) -> None:
    schedule = make_cron(line, "UTC")
    sentence = explain(schedule)
    check_times(sentence.removesuffix(", UTC"), a_day(schedule))


def check_times(sentence: str, found: list[time]) -> None:
    """Each time that is named is one that fires. "At" names all of them, "from … to" the first and the last."""
    named = [time.fromisoformat(clock) for clock in _CLOCK.findall(sentence)]
    assert set(named) <= set(found), sentence
    if window := re.search(rf"from ({_CLOCK.pattern}) to ({_CLOCK.pattern})", sentence):
        first, last = time.fromisoformat(window[1]), time.fromisoformat(window[2])
        if first <= last:
            assert (first, last) == (found[0], found[-1]), sentence
        else:
            assert not [at for at in found if last < at < first], sentence
    elif re.match(r"At [0-9]{2}:", sentence):
        assert named == found, sentence
    if past := re.search(r"(?:At|at) ([0-9 ,and to]+) minutes? past", sentence):
        assert {at.minute for at in found} == numbers(past[1]), sentence
    if "on the hour" in sentence.lower():
        assert {at.minute for at in found} == {0}, sentence
    if step := re.match(r"Every (?:([0-9]+) )?(hour|minute|second)s?\b", sentence):
        length = timedelta(**{f"{step[2]}s": int(step[1] or 1)}).total_seconds()
        offsets = [at.hour * 3600 + at.minute * 60 + at.second for at in found]
        gaps = {later - earlier for earlier, later in pairwise(offsets)}
        assert min(gaps) == length or "past" in sentence, sentence
        if "in hours" not in sentence and "past" not in sentence and "of these minutes" not in sentence:
            # A range that passes midnight leaves one gap in the middle of the day.
            assert len(gaps - {length}) <= 1, sentence


def numbers(text: str) -> set[int]:
    if " to " in text:
        low, high = map(int, text.split(" to "))
        return set(range(low, high + 1))
    return {int(number) for number in re.findall(r"[0-9]+", text)}


@settings(max_examples=200, deadline=None)
@given(months, days_of_week)
def test_the_days_that_a_sentence_names(month: str, week: str) -> None:
    schedule = make_cron(f"0 9 * {month} {week}", "UTC")
    parts = explain(schedule).removesuffix(", UTC").split(", ")
    found = fires(schedule, START, START + timedelta(days=366))
    told = ", ".join(parts[1:])
    said_months = told[told.index("in ") + 3 :] if "in " in told else ""
    said_days = told.partition(", in ")[0] if not told.startswith("in ") else ""
    assert {fire.month - 1 for fire in found} == named(said_months, list(MONTH_NAMES)), parts
    assert {fire.weekday() for fire in found} == named(said_days, _WEEK), parts


def named(text: str, names: list[str]) -> set[int]:
    if not text:
        return set(range(len(names)))
    found = [names.index(name) for name in re.findall("|".join(names), text)]
    if " to " not in text:
        return set(found)
    first, last = found
    return {(first + step) % len(names) for step in range((last - first) % len(names) + 1)}


def test_sentences_that_were_misleading() -> None:
    told = {
        "30 9-17 * * *": "Every hour from 09:30 to 17:30, UTC",
        "0,30 9-17 * * *": "At 0 and 30 minutes past the hour, from 09:00 to 17:30, UTC",
        "*/15 9-17 * * *": "Every 15 minutes, from 09:00 to 17:45, UTC",
        "1 * * * *": "Every hour, at 1 minute past, UTC",
    }
    assert {line: explain(make_cron(line, "UTC")) for line in told} == told


rules = st.builds(
    lambda frequency, interval, day, times: (
        f"DTSTART:20260105T090000 RRULE:FREQ={frequency};INTERVAL={interval}{day}{times}"
    ),
    st.sampled_from(["DAILY", "WEEKLY", "MONTHLY"]),
    st.integers(1, 3),
    st.sampled_from(["", ";BYDAY=MO,TH", ";BYDAY=SU"]),
    st.sampled_from(["", ";BYHOUR=9,17;BYMINUTE=30", ";BYHOUR=0,6,12,18"]),
)


@settings(max_examples=100, deadline=None)
@given(rules)
def test_the_times_and_days_that_the_sentence_of_a_rule_names(rule: str) -> None:
    schedule = make_rrule(rule)
    sentence = explain(schedule)
    found = fires(schedule, START + timedelta(days=10), START + timedelta(days=200))
    times = re.search(r"at ([0-9:, and]+), from", sentence)
    assert times is not None, sentence
    assert {fire.time() for fire in found} == {time.fromisoformat(clock) for clock in _CLOCK.findall(times[1])}
    if days := re.search(r"on ((?:[A-Z][a-z]+day(?:, | and )?)+)", sentence):
        assert {fire.weekday() for fire in found} == named(days[1], _WEEK), sentence


def test_several_lines_name_the_times_of_all_of_them() -> None:
    schedule = parse_schedule("every day at 9:00, 12:15 and 17:30", now=NOW)
    assert explain(schedule) == "At 09:00, 12:15 and 17:30, UTC"
    mixed = make_cron("*/15 9-16 * * MON-FRI; 0 17 * * MON-FRI", "UTC")
    assert explain(mixed) == "Every 15 minutes, from 09:00 to 16:45; at 17:00, Monday to Friday, UTC"
    apart = make_cron("0 9 * * MON; 30 10 1 * *", "UTC")
    assert explain(apart) == "At 09:00, Monday; at 10:30, on the 1st of the month, UTC"
