"""Plain words, and what happens to text that means nothing."""

from datetime import UTC, datetime, timedelta
from random import Random
from time import process_time

import msgspec
import pytest

from duetime.errors import InvalidInput
from duetime.model.schedule import Cron, Every, Once
from duetime.model.schedule.describe import exact_form, explain
from duetime.model.schedule.parse import parse_schedule
from duetime.model.schedule.preview import preview
from duetime.model.schedule.words import parse_words
from duetime.model.schedule.words.vocabulary import PHRASES
from tests.support.texts import garbage

NOW = datetime(2026, 3, 27, 10, tzinfo=UTC)
BERLIN = "Europe/Berlin"
HARD_BOUND = 2.0
"""Seconds of CPU that any text may take: to read it, to tell it, and to look at its next fires."""


def read(text: str) -> str:
    return exact_form(parse_words(text, zone=BERLIN, now=NOW))


@pytest.mark.parametrize("phrase", PHRASES)
def test_the_phrases_that_are_offered_are_understood(phrase: str) -> None:
    schedule = parse_words(phrase, zone=BERLIN, now=NOW)
    assert preview(schedule, BERLIN, NOW, 1)
    assert explain(schedule, BERLIN)
    if not isinstance(schedule, Once):
        schedule = msgspec.structs.replace(schedule, said=phrase)
    assert parse_schedule(phrase, zone=BERLIN, now=NOW) == schedule


@pytest.mark.parametrize("phrase", PHRASES)
def test_an_exact_form_reads_back(phrase: str) -> None:
    schedule = parse_words(phrase, zone=BERLIN, now=NOW)
    assert parse_schedule(exact_form(schedule), zone=BERLIN, now=NOW) == schedule


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("Every Weekday at 9 a.m.", "cron 0 9 * * MON-FRI"),
        ("each day at 9:30pm", "cron 30 21 * * *"),
        ("every day at 12am", "cron 0 0 * * *"),
        ("every day at 12pm", "cron 0 12 * * *"),
        ("daily at 17:30:15", "cron 15 30 17 * * *"),
        ("every day at 9:15, 9:30 and 9:45", "cron 15,30,45 9 * * *"),
        ("every mon, wed and fri at 7:15", "cron 15 7 * * MON,WED,FRI"),
        ("monday through friday at 8", "cron 0 8 * * MON-FRI"),
        ("friday to monday at 8", "cron 0 8 * * FRI,SAT,SUN,MON"),
        ("on weekdays at 6", "cron 0 6 * * MON-FRI"),
        ("every weekend at noon", "cron 0 12 * * SAT,SUN"),
        ("at noon on the 15th", "cron 0 12 15 * *"),
        ("at 9 and 17 every day", "cron 0 9,17 * * *"),
        ("at 8 tomorrow", "at 2026-03-28T07:00:00Z"),
        ("every second", "cron * * * * * *"),
        ("every second tuesday of the month at 9", "cron 0 9 * * TUE#2"),
        ("the last day of every month", "cron 0 0 L * *"),
        ("first day of the month at 6", "cron 0 6 1 * *"),
        ("monthly on the first monday of the month at 9", "cron 0 9 * * MON#1"),
        ("every year on the 1st of may at 9", "cron 0 9 1 5 *"),
        ("hourly at 15 minutes past", "cron 15 * * * *"),
        ("every week", "cron 0 0 * * SUN"),
        ("every month", "cron 0 0 1 * *"),
        ("every two hours", "every PT2H"),
        ("every 90 seconds", "every PT1M30S"),
        ("every 1 day", "every P1D"),
        ("every other week on friday at 16:00", "every R/2026-03-27T15:00:00Z/P2W"),
        ("every 3 days at 9", "every R/2026-03-28T08:00:00Z/P3D"),
        ("every 2 months on the 31st", "every R/2026-03-30T22:00:00Z/P2M"),
        ("every 2 years on 29 february at 12", "every R/2028-02-29T11:00:00Z/P2Y"),
        ("every 15 minutes on weekdays", "cron */15 * * * MON-FRI"),
        ("in an hour", "in PT1H"),
        ("in 1 hour and 30 minutes", "in PT1H30M"),
        ("in 2 weeks", "at 2026-04-10T09:00:00Z"),
        ("at 11:00", "at 2026-03-28T10:00:00Z"),
        ("next friday at noon", "at 2026-04-03T10:00:00Z"),
        ("right now", "now"),
        ("every second day at 9am", "every R/2026-03-28T08:00:00Z/P2D"),
        ("every third day", "every P3D"),
        ("every 5th day at 9", "every R/2026-03-28T08:00:00Z/P5D"),
        ("every second week on monday at 9", "every R/2026-03-30T07:00:00Z/P2W"),
        ("every second minute", "every PT2M"),
        ("every second day of the month at 9", "cron 0 9 2 * *"),
        ("on the second day of the month", "cron 0 0 2 * *"),
        ("every last day at 18:00", "cron 0 18 L * *"),
        ("every day at 9:00 and 17:30", "cron 0 9 * * *; 30 17 * * *"),
        ("mondays at 8:15, 9:30 and 10am", "cron 15 8 * * MON; 30 9 * * MON; 0 10 * * MON"),
        ("every day at 9:00 and 9:30:10", "cron 0 0 9 * * *; 10 30 9 * * *"),
        ("every hour on weekdays", "cron 0 * * * MON-FRI"),
        ("every hour at :15 on weekdays", "cron 15 * * * MON-FRI"),
        ("every hour on weekdays at :15", "cron 15 * * * MON-FRI"),
        ("hourly on weekends", "cron 0 * * * SAT,SUN"),
        ("every minute on mondays", "cron * * * * MON"),
        ("first monday at 9", "cron 0 9 * * MON#1"),
        ("every first monday at 9", "cron 0 9 * * MON#1"),
        ("second tuesday at 9", "cron 0 9 * * TUE#2"),
        ("every first and third monday at 9", "cron 0 9 * * MON#1,MON#3"),
        ("last friday at 17:30", "cron 30 17 * * FRIL"),
        ("every other tuesday", "every R/2026-03-30T22:00:00Z/P2W"),
        ("every other tuesday at 9", "every R/2026-03-31T07:00:00Z/P2W"),
        ("every hour between 9 and 17", "cron 0 9-17 * * *"),
        ("every hour from 9am to 5pm", "cron 0 9-17 * * *"),
        ("every 1 hour between 9 and 17", "cron 0 9-17 * * *"),
        ("every hour between 9:30 and 17", "cron 30 9-16 * * *"),
        ("every 1 hour between 9:30 and 17", "cron 30 9-16 * * *"),
        ("every 60 minutes between 9:30 and 17", "cron 30 9-16 * * *"),
        ("every hour at :00 between 9:30 and 17", "cron 0 10-17 * * *"),
        ("every hour between 9:30 and 17 on weekdays", "cron 30 9-16 * * MON-FRI"),
        ("every hour on weekdays at :15 between 9:30 and 17", "cron 15 10-16 * * MON-FRI"),
        ("every 1 hour on weekdays", "cron 0 * * * MON-FRI"),
        ("every hour at :30 between 9 and 17 on weekdays", "cron 30 9-16 * * MON-FRI"),
        ("every 15 minutes between 9 and 17", "cron */15 9-16 * * *; 0 17 * * *"),
        ("every 15 minutes on weekdays between 9 and 10", "cron */15 9 * * MON-FRI; 0 10 * * MON-FRI"),
        ("every 20 minutes from 9:10 to 10:50", "cron 10,30,50 9,10 * * *"),
        ("every 2 hours between 8 and 18 on mondays", "cron 0 8,10,12,14,16,18 * * MON"),
        ("every hour between 22 and 2", "cron 0 0-2,22,23 * * *"),
    ],
)
def test_what_words_mean(text: str, meaning: str) -> None:
    assert read(text) == meaning


def test_a_time_that_the_clocks_skip_is_reached_after_the_gap() -> None:
    assert parse_words("the day after tomorrow at 2:30", zone=BERLIN, now=NOW) == Once(
        at=datetime(2026, 3, 29, 1, tzinfo=UTC),
        asked=datetime(2026, 3, 29, 2, 30),  # noqa: DTZ001 - a wall time
        place=BERLIN,
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("evry weekday at 9am", "every weekday at 9am"),
        ("every monday and thurzday at 8pm", "every monday and thursday at 8pm"),
        ("tomorow at 8", "tomorrow at 8"),
        ("evry 20 minuts", "every 20 minutes"),
        ("lst friday of the month at 17:30", "last friday of the month at 17:30"),
        ("monday at 9", "mondays at 9"),
        ("every working day at 9am", "every"),
        ("whenever you like", "every"),
    ],
)
def test_the_nearest_phrases_are_offered(text: str, hint: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_words(text, zone=BERLIN, now=NOW)
    assert caught.value.field == "schedule"
    assert caught.value.remedy is not None
    assert caught.value.remedy.startswith(f"the nearest: {hint}")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("every day at 24:00", "24:00 is not a time of the day"),
        ("every day at 9:60", "9:60 is not a time of the day"),
        ("tomorrow at 0am", "0 am is not a time of the day"),
        ("every second tuesday at 9", "number 2 of tuesday can mean both"),
        ("every 3rd friday", "number 3 of friday can mean both"),
        ("every first day at 9", "can mean a day of the month"),
        ("every 2nd and 4th day at 9", "can mean a day of the month"),
        ("every 15 minutes between 22 and 2 on mondays", "pass midnight"),
        ("every hour between 9 and 9", "at the same time"),
        ("every 30 seconds on weekdays", "an interval in seconds"),
        ("every 31 february", "never fires"),
        ("on the 32nd", "no such day"),
        ("on 2026-02-30 at 9", "does not exist"),
        ("on 2020-01-01 at 9", "has passed"),
        ("on 9999-12-31 at 23:59", "out of range"),
        ("on 0001-01-01 at 0:00", "does not exist"),
        ("every 0 minutes", "every 0 is not an interval"),
        ("every 7 minutes on mondays", "does not go evenly"),
        ("in 999999999 years", "too many"),
        ("in 99999999999999999999 seconds", "too many"),
        ("every 2 weeks on monday at 9 and 10", "has one time"),
        ("every 2 months on the last day at 9", "one day of the month"),
        ("hourly at :75", "no minute 75"),
        ("", "is empty"),
        ("x" * 201, "201 characters are too many"),
    ],
)
def test_what_is_understood_but_cannot_be(text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse_words(text, zone=BERLIN, now=NOW)
    assert caught.value.field == "schedule"
    assert message in caught.value.message


def test_any_kind_of_text_is_taken() -> None:
    assert parse_schedule("0 9 * * MON", zone=BERLIN, now=NOW) == Cron("0 9 * * MON", BERLIN)
    assert parse_schedule("@daily", now=NOW) == Cron("@daily")
    assert parse_schedule("15m", now=NOW) == parse_schedule("PT15M", now=NOW) == Every(timedelta(minutes=15))
    assert parse_schedule("every 15m", now=NOW) == parse_schedule("15m", now=NOW)
    assert parse_schedule("in 2h", now=NOW) == Once(delay=timedelta(hours=2))
    assert parse_schedule("cron 0 9 * * MON", now=NOW) == Cron("0 9 * * MON")
    assert parse_schedule("R2/PT1H", now=NOW) == Every(timedelta(hours=1), count=2)
    assert parse_schedule("2026-11-15t09:00:00z", now=NOW) == Once(at=datetime(2026, 11, 15, 9, tzinfo=UTC))
    with pytest.raises(InvalidInput, match="not a time zone"):
        parse_schedule("now", zone="Mars/Olympus", now=NOW)


@pytest.mark.parametrize("seed", range(10))
def test_garbage_is_accepted_or_refused_and_nothing_else(seed: int) -> None:
    random = Random(seed)
    accepted = 0
    for _ in range(1000):
        text = garbage(random)
        began = process_time()
        try:
            schedule = parse_schedule(text, zone=random.choice([BERLIN, "UTC", "Pacific/Apia"]), now=NOW)
        except InvalidInput as error:
            assert error.field, text
            assert len(error.message) > 5, text
        else:
            accepted += 1
            assert explain(schedule), text
            assert exact_form(schedule), text
            preview(schedule, BERLIN, NOW, 3)
        took = process_time() - began
        assert took < HARD_BOUND, f"{text!r} took {took:.1f} s"
    assert accepted > 20
