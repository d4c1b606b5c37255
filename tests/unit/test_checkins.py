"""When a check-in is wrong, and when a ping that is missing proves nothing."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from duetime.errors import InvalidInput
from duetime.model.checkin import CheckIn, StoredCheckIn, compose_checkin, judge_checkin, make_checkin, read_ping

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
LONG_AGO = START - timedelta(days=1)
HOURLY = CheckIn("backup", every=3600, grace=600)
NIGHTLY = CheckIn("backup", cron="0 2 * * *", tz="Europe/Berlin", grace=600)


def at(minutes: float) -> datetime:
    return START + timedelta(minutes=minutes)


def pinged(check: CheckIn, moment: datetime = START, **given: Any) -> StoredCheckIn:
    state = {"ping": "success", "pinged_at": moment, "succeeded_at": moment, "counts_from": moment, "pings": 1, **given}
    return StoredCheckIn(1, check, False, LONG_AGO, **state)


def judged(stored: StoredCheckIn, now: datetime, served_since: datetime = LONG_AGO, *, suspended: bool = False) -> Any:
    return judge_checkin(stored, now, served_since, suspended=suspended)


def test_a_ping_that_is_late_opens_once_and_the_next_success_closes() -> None:
    stored = pinged(HOURLY)
    stored, turn = judged(stored, at(69))
    assert (turn, stored.judge_at) == (None, at(70))
    stored, turn = judged(stored, at(70))
    assert (turn, stored.open, stored.reason, stored.version) == ("opened", True, "late", 1)
    stored, turn = judged(stored, at(200))
    assert (turn, stored.version, stored.judge_at) == (None, 1, None)
    back = msgspec.structs.replace(stored, pinged_at=at(201), succeeded_at=at(201), counts_from=at(201))
    stored, turn = judged(back, at(201))
    assert (turn, stored.open, stored.version, stored.judge_at) == ("closed", False, 2, at(271))


def test_before_its_first_ping_nothing_is_expected() -> None:
    new = StoredCheckIn(1, HOURLY, False, LONG_AGO)
    assert judged(new, at(10_000)) == (new, None)


def test_a_cron_line_is_read_in_its_time_zone_across_a_clock_change() -> None:
    before = datetime(2026, 3, 28, 1, 0, 5, tzinfo=UTC)  # 02:00:05 in Berlin; the next night 02:00 does not exist
    assert NIGHTLY.expected_after(before) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    summer = datetime(2026, 5, 4, 0, 0, 5, tzinfo=UTC)
    assert NIGHTLY.expected_after(summer) == datetime(2026, 5, 5, 0, 0, tzinfo=UTC)


def test_a_ping_by_a_clock_that_is_ahead_is_the_one_that_was_expected() -> None:
    assert NIGHTLY.expected_after(datetime(2026, 5, 3, 23, 59, 50, tzinfo=UTC)) == datetime(2026, 5, 5, tzinfo=UTC)
    each_minute = CheckIn("a", cron="* * * * *", grace=60)
    assert each_minute.expected_after(at(0) + timedelta(seconds=5)) == at(1)
    assert each_minute.expected_after(at(1) - timedelta(seconds=5)) == at(2)


def test_a_failure_opens_at_once_and_what_is_late_then_is_the_same_incident() -> None:
    failed = pinged(HOURLY, ping="fail", exit_code=3, note="first\ndisk full")
    stored, turn = judged(failed, at(0))
    assert (turn, stored.reason) == ("opened", "failed")
    text = compose_checkin(stored, "opened", failed, "https://d.example.com").text
    assert "exit code 3" in text and "disk full" in text and text.endswith("https://d.example.com/")
    assert judged(stored, at(1000))[1] is None


def test_a_run_that_reported_its_start_must_report_its_end() -> None:
    check = msgspec.structs.replace(HOURLY, max_runtime=120.0)
    started = pinged(check, ping="start", started_at=START)
    stored, turn = judged(started, at(1.9))
    assert (turn, stored.judge_at) == (None, at(2))
    stored, turn = judged(stored, at(2))
    assert (turn, stored.reason) == ("opened", "overran")
    assert "has not reported its end; expected within 2m" in compose_checkin(stored, "opened", started, None).text


def test_pings_that_no_server_could_receive_are_not_missed() -> None:
    stored, turn = judged(pinged(HOURLY), at(75), served_since=at(65))
    assert (turn, stored.counts_from, stored.judge_at) == (None, at(65), at(135))
    assert judged(stored, at(135), served_since=at(65))[1] == "opened"
    started = pinged(HOURLY, ping="start", started_at=START)
    stored, turn = judged(started, at(20), served_since=at(5))
    assert (turn, stored.started_at, stored.judge_at) == (None, None, at(75)), "its end may have been reported"


def test_an_outage_before_the_occurrence_excuses_nothing() -> None:
    assert judged(pinged(HOURLY), at(75), served_since=at(30))[1] == "opened"


def test_while_it_or_its_tenant_is_paused_nothing_is_late() -> None:
    stored, turn = judged(msgspec.structs.replace(pinged(HOURLY), paused=True), at(1000))
    assert (turn, stored.judge_at) == (None, None)
    stored, turn = judged(pinged(HOURLY), at(1000), suspended=True)
    assert (turn, stored.counts_from) == (None, at(1000))
    assert judged(stored, at(1060))[1] is None, "it has its whole period after the suspension"


def test_a_pause_does_not_close_what_is_open() -> None:
    stored, _ = judged(pinged(HOURLY), at(70))
    resumed = msgspec.structs.replace(stored, counts_from=at(300))
    assert judged(resumed, at(300))[1] is None


@pytest.mark.parametrize(
    ("check", "field"),
    [
        (CheckIn("a"), "every"),
        (CheckIn("a", every=60, cron="* * * * *"), "every"),
        (CheckIn("a b", every=60), "name"),
        (CheckIn("a", every=1), "every"),
        (CheckIn("a", every=float("nan")), "every"),
        (CheckIn("a", every=60, grace=-1), "grace"),
        (CheckIn("a", every=60, tz="Europe/Berlin"), "tz"),
        (CheckIn("a", cron="nonsense"), "cron"),
        (CheckIn("a", cron="* * * * *", tz="Moon/Base"), "tz"),
    ],
)
def test_what_makes_no_sense_is_refused(check: CheckIn, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_checkin(check)
    assert refused.value.field == field


def test_kinds_of_pings() -> None:
    assert [read_ping(text) for text in ("start", "success", "fail", "0", "3", "255")] == [
        ("start", None),
        ("success", None),
        ("fail", None),
        ("success", 0),
        ("fail", 3),
        ("fail", 255),
    ]
    for wrong in ("", "256", "-1", "end", "١", "0003", "start "):
        with pytest.raises(InvalidInput):
            read_ping(wrong)
