"""What a schedule will do, told before it does."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from typer.testing import CliRunner, Result

from duetime.cli.main import application
from duetime.errors import InvalidInput
from duetime.model.schedule import Every, Once, Schedule, check_zone, make_rrule, make_schedule
from duetime.model.schedule.describe import exact_form, explain
from duetime.model.schedule.preview import preview

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(application, ["preview", *arguments])


def test_the_fires_of_a_line_as_json() -> None:
    result = run("0 9 * * MON", "--tz", "Europe/Berlin", "--from", "2026-03-27T00:00:00Z", "--count", "2", "--json")
    assert result.exit_code == 0
    assert json.loads(result.output) == {
        "kind": "cron",
        "exact": "0 9 * * MON",
        "zone": "Europe/Berlin",
        "sentence": "At 09:00, Monday, Europe/Berlin",
        "fires": [
            {"local": "2026-03-30T09:00:00+02:00", "utc": "2026-03-30T07:00:00Z", "change": None, "note": None},
            {"local": "2026-04-06T09:00:00+02:00", "utc": "2026-04-06T07:00:00Z", "change": None, "note": None},
        ],
        "reason": None,
    }


@pytest.mark.parametrize(
    ("text", "kind", "exact"),
    [
        ("every weekday at 9am", "cron", "0 9 * * MON-FRI"),
        ("15m", "every", "PT15M"),
        ("R5/2030-01-01T00:00:00Z/PT1H", "every", "R5/2030-01-01T00:00:00Z/PT1H"),
        ("in 2 hours", "in", "PT2H"),
        ("now", "now", "now"),
        ("FREQ=DAILY;BYHOUR=9;BYMINUTE=0", "rrule", "RRULE:FREQ=DAILY;BYHOUR=9;BYMINUTE=0"),
        ("CRON_TZ=Asia/Tokyo 0 9 * * *", "cron", "0 9 * * *"),
        ("@every 90s", "every", "PT1M30S"),
        ("2030-01-01T00:00:00Z", "at", "2030-01-01T00:00:00Z"),
    ],
)
def test_every_kind_of_text(text: str, kind: str, exact: str) -> None:
    told = json.loads(run(text, "--from", "2026-03-27T00:00:00Z", "--json").output)
    assert (told["kind"], told["exact"]) == (kind, exact)
    assert told["fires"]


def test_a_table_for_people_marks_what_the_clocks_moved() -> None:
    result = run("30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-03-28T00:00:00Z", "-n", "2")
    assert result.exit_code == 0
    assert "At 02:30, Europe/Berlin" in result.output
    assert "cron 30 2 * * *" in result.output
    assert "Sun 2026-03-29 03:00:00+02:00" in result.output
    assert "2026-03-29 01:00:00Z" in result.output
    assert "02:30 does not exist" in result.output


def test_both_days_must_match_if_asked_for() -> None:
    told = json.loads(run("0 9 13 * FRI", "--day-match", "both", "--from", "2026-03-27T00:00:00Z", "--json").output)
    assert (told["exact"], told["fires"][0]["utc"]) == ("0 9 13 * +FRI", "2026-11-13T09:00:00Z")


def test_the_zone_of_the_text_is_the_zone_of_the_preview() -> None:
    told = json.loads(run("CRON_TZ=Asia/Tokyo 0 9 * * *", "--from", "2026-03-27T00:00:00Z", "--json").output)
    assert (told["zone"], told["fires"][0]["local"]) == ("Asia/Tokyo", "2026-03-27T09:00:00+09:00")
    refused = run("CRON_TZ=Asia/Tokyo 0 9 * * *", "--tz", "UTC", "--json")
    assert (refused.exit_code, json.loads(refused.output)["field"]) == (2, "tz")


def test_a_one_off_that_the_clocks_move_says_so() -> None:
    result = run("the day after tomorrow at 2:30", "--tz", "Europe/Berlin", "--from", "2026-03-27T10:00:00Z")
    assert result.output.count("02:30 does not exist") == 2


@pytest.mark.parametrize(
    ("zone", "instead"),
    [
        ("UTC+2", "Etc/GMT-2, which is always 2 h ahead of UTC"),
        ("GMT-05:00", "Etc/GMT+5, which is always 5 h behind UTC"),
        ("+02", "Etc/GMT-2"),
        ("UTC+5:30", "a name such as Asia/Kolkata"),
        ("UTC+15", "a name such as Asia/Kolkata"),
        ("CEST", "a name such as Europe/Berlin"),
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("utc", "did you mean UTC?"),
    ],
)
def test_an_offset_is_no_time_zone(zone: str, instead: str) -> None:
    with pytest.raises(InvalidInput, match="is not a time zone") as caught:
        check_zone(zone)
    assert instead in (caught.value.remedy or "")


def test_a_rule_may_quote_its_zone_and_a_cron_line_is_no_rule() -> None:
    rule = make_rrule('DTSTART;TZID="Europe/Berlin":20260105T090000 RRULE:FREQ=DAILY')
    assert rule == make_rrule("DTSTART;TZID=Europe/Berlin:20260105T090000 RRULE:FREQ=DAILY")
    with pytest.raises(InvalidInput, match="is not a recurrence rule"):
        make_rrule("0 9 * * *")


def test_a_schedule_that_is_over_says_so() -> None:
    result = run("R1/2020-01-01T00:00:00Z/PT1H", "--from", "2026-01-01T00:00:00Z")
    assert result.exit_code == 0
    assert "does not fire" in result.output
    assert "that time has passed" in run("2020-01-01T00:00:00Z", "--from", "2026-01-01T00:00:00Z").output


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (["monday at 9"], "schedule"),
        (["0 25 * * *"], "cron"),
        (["hourly", "--tz", "Europe/Berln"], "tz"),
        (["hourly", "--from", "yesterday"], "from"),
        (["hourly", "--count", "0"], "count"),
        (["hourly", "--count", "1000000"], "count"),
    ],
)
def test_what_cannot_be_shown_is_named(arguments: list[str], field: str) -> None:
    result = run(*arguments, "--json")
    assert result.exit_code == 2
    assert json.loads(result.output)["field"] == field


def test_what_starts_at_the_moment_looked_from_is_shown() -> None:
    assert preview(make_schedule(every="1h", start_at=NINE), "UTC", NINE, 1)[0].utc == NINE
    assert preview(Every(timedelta(hours=1)), "UTC", NINE, 1)[0].utc == NINE + timedelta(hours=1)
    assert preview(Once(), "Asia/Tokyo", NINE, 1)[0].local.hour == 18
    assert preview(Once(at=NINE), "UTC", NINE + timedelta(seconds=1), 1) == []


@pytest.mark.parametrize(
    ("schedule", "sentence", "form"),
    [
        (Once(), "Once, now", "now"),
        (Once(delay=timedelta(minutes=90)), "Once, 1 hour and 30 minutes after submission", "in PT1H30M"),
        (
            make_schedule(cron="0 9 * * *", start_at=NINE, end_at=NINE + timedelta(days=9), tz="Asia/Tokyo"),
            "At 09:00, from 2026-03-02 18:00, until 2026-03-11 18:00, Asia/Tokyo",
            "cron 0 9 * * *",
        ),
        (
            make_schedule(cron="0 9 * * *", exclude={"weekdays": ["SUN", "SAT"], "dates": ["2026-12-25"]}),
            "At 09:00, not on Saturday, Sunday and 2026-12-25, UTC",
            "cron 0 9 * * *",
        ),
        (
            make_schedule(every="P1D", exclude={"weekdays": ["SUN"], "instead": "next_day"}),
            "Every day, counted from creation, not on Sunday but on the next other day, UTC",
            "every P1D",
        ),
        (
            make_schedule(every="1.5s", start_at=NINE),
            "Every 1.5 seconds, counted from 2026-03-02 09:00, UTC",
            "every R/2026-03-02T09:00:00Z/PT1.5S",
        ),
    ],
)
def test_sentences(schedule: Schedule, sentence: str, form: str) -> None:
    assert explain(schedule) == sentence
    assert exact_form(schedule) == form
