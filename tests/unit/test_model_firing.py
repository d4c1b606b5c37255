"""Deciding one job's fire."""

import errno
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.ids import new_id, once_run_id, run_id
from duetime.model.firing import (
    LOOK_AHEAD,
    MOST_MISSED,
    DueJob,
    Fire,
    PassedBy,
    PlannedRun,
    SetAside,
    plan_fire,
    scan_time,
)
from duetime.model.job import Options, encode_options
from duetime.model.lane import LaneKey, Trial, trial_after
from duetime.model.policy import Misfire
from duetime.model.schedule import Cron, Every, Once, Schedule, encode_schedule
from tests.support.zones import load_zones_with

NINE = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
LANE = LaneKey(1, "default", 1, "greet")
JOB = new_id()


def due(schedule: Schedule, at: datetime = NINE) -> DueJob:
    return DueJob(JOB, LANE, encode_schedule(schedule), at)


def test_a_one_off_fires_once() -> None:
    fire = plan_fire(due(Once(at=NINE)), NINE - timedelta(seconds=10))
    run = PlannedRun(once_run_id(JOB, NINE), NINE)
    assert fire == Fire(JOB, LANE, (run,), None, None, NINE, recurring=False)


def test_a_recurring_job_fires_and_moves_on() -> None:
    fire = plan_fire(due(Every(timedelta(minutes=1), NINE)), NINE - timedelta(seconds=10))
    following = NINE + timedelta(minutes=1)
    run = PlannedRun(run_id(JOB, NINE), NINE)
    assert fire == Fire(JOB, LANE, (run,), following, following - LOOK_AHEAD, NINE, recurring=True)


def test_a_short_interval_is_looked_at_no_earlier_than_the_fire_before_it() -> None:
    fire = plan_fire(due(Every(timedelta(seconds=2), NINE)), NINE - timedelta(seconds=10))
    assert isinstance(fire, Fire)
    assert (fire.next_fire_at, fire.scan_at) == (NINE + timedelta(seconds=2), NINE)


@given(st.timedeltas(timedelta(0), timedelta(days=30)), st.timedeltas(timedelta(seconds=1), timedelta(days=3)))
def test_missed_occurrences_become_one_run(late: timedelta, interval: timedelta) -> None:
    now = NINE + late
    fire = plan_fire(due(Every(interval, NINE)), now)
    assert isinstance(fire, Fire)
    assert fire.next_fire_at is not None
    (run,) = fire.runs
    assert NINE <= run.due_at <= now < fire.next_fire_at == run.due_at + interval
    assert fire.scan_at == max(fire.next_fire_at - LOOK_AHEAD, run.due_at)
    assert all(NINE <= skip.due_at < run.due_at for skip in fire.skips)
    assert len(fire.skips) == min((run.due_at - NINE) // interval, MOST_MISSED)


@pytest.mark.parametrize("most", [1, 100, 500, 1000])
def test_as_many_are_caught_up_with_as_are_asked_for(most: int) -> None:
    options = encode_options(Options(misfire=Misfire("all", most=most)))
    late = DueJob(JOB, LANE, encode_schedule(Every(timedelta(seconds=1), NINE)), NINE, options)
    fire = plan_fire(late, NINE + timedelta(seconds=1500))
    assert isinstance(fire, Fire)
    newest = NINE + timedelta(seconds=1500)
    assert [run.due_at for run in fire.runs] == [newest - timedelta(seconds=back) for back in reversed(range(most))]
    # The others are not passed over in silence: some are named, the rest as one.
    assert fire.skips[0].due_at == NINE
    assert len(fire.skips) == max(0, MOST_MISSED - most) + 1


@pytest.mark.parametrize(
    "body", [encode_schedule(Every(timedelta(1))), encode_schedule(Every(timedelta(0), NINE)), b"{"]
)
def test_what_no_node_can_process_is_set_aside(body: bytes) -> None:
    aside = plan_fire(DueJob(JOB, LANE, body, NINE), NINE)
    assert isinstance(aside, SetAside)
    assert aside.job_id == JOB
    assert aside.problem


@pytest.mark.parametrize(
    "body",
    [
        encode_schedule(Cron("* * * * *", "Mars/Olympus")),
        encode_schedule(Cron("0 9 * * FULLMOON")),
        b'{"type":"moon"}',
        b'"x"',
    ],
)
def test_what_a_newer_release_may_know_is_passed_by(body: bytes) -> None:
    passed = plan_fire(DueJob(JOB, LANE, body, NINE), NINE)
    assert isinstance(passed, PassedBy)
    assert passed.job_id == JOB
    assert passed.problem


@pytest.mark.parametrize("error", [OSError(errno.EMFILE, "Too many open files"), MemoryError(), TypeError("a fault")])
def test_what_is_wrong_with_this_node_is_passed_by(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(name: str) -> ZoneInfo:
        raise error

    load_zones_with(fails, monkeypatch)
    late = DueJob(JOB, LANE, encode_schedule(Cron("* * * * *", "Asia/Pyongyang")), NINE)
    assert isinstance(plan_fire(late, NINE), PassedBy)


def test_when_a_cursor_is_looked_at() -> None:
    assert scan_time(NINE) == NINE - LOOK_AHEAD
    assert scan_time(NINE, after=NINE - timedelta(seconds=5)) == NINE - timedelta(seconds=5)
    assert scan_time(NINE, after=NINE - timedelta(hours=5)) == NINE - LOOK_AHEAD


def test_trust_goes_with_every_lost_worker() -> None:
    assert [trial_after(lost) for lost in (0, 1, 2, 3, 9)] == [
        Trial.NONE,
        Trial.SUSPECT,
        Trial.PROBED,
        Trial.ALONE,
        Trial.ALONE,
    ]
    assert LANE.on_trial(Trial.SUSPECT) == LaneKey(1, "default", 1, "greet", Trial.SUSPECT)
