"""Which ready runs of a lane are left to their announcements, as time passes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from duetime.clock import monotonic_from
from duetime.model.announced import LAST_ID, Announced
from duetime.model.attempt import Claimed
from duetime.model.claim_plan import Agenda
from duetime.model.lane import Lane, LaneKey, Look, Sight, Tier, Trial
from duetime.model.microseconds import stamp
from duetime.model.suspicion import TrialRoom

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
READY = NOW - timedelta(seconds=5)
LANE = Lane(1, LaneKey(1, "mail", Tier.MEDIUM, "work", Trial.NONE))
A_SECOND_AGO = NOW - timedelta(seconds=1), LAST_ID


class Time:
    now = 1000.0


@pytest.fixture
def time() -> Iterator[Time]:
    time = Time()
    with monotonic_from(lambda: time.now):
        yield time


@pytest.fixture
def announced(time: Time) -> Announced:
    made = Announced()
    made.queues = {(1, "mail")}
    return made


def claimed(number: int) -> Claimed:
    at = stamp(READY)
    return Claimed(UUID(int=number), UUID(int=0), 1, 1, 1, 0, at, at, at, b"{}", b"{}", None, None)


def receive(announced: Announced, number: int) -> None:
    """The announcement of this run has arrived, and the run was claimed."""
    announced.fetched()
    announced.heard({1})
    announced.reached([claimed(number)])


def dealt(announced: Announced) -> int:
    """How many of ten runs, all ready at the same time, are claimed from their lane."""
    look = Look(NOW, (Sight(1, (READY,) * 10, tuple(UUID(int=number) for number in range(10))),), 100)
    agenda = Agenda.of(look, {1: LANE}, {"work": 0}, TrialRoom(), announced=announced)
    return sum(agenda.has(0, least) for least in range(1, 11))


def test_without_announcements_runs_are_claimed_a_second_later(announced: Announced) -> None:
    assert announced.until(1, NOW) == A_SECOND_AGO
    assert dealt(announced) == 10


def test_while_announcements_arrive_runs_are_left_to_them(announced: Announced, time: Time) -> None:
    receive(announced, 0)
    assert dealt(announced) == 0, "they wait for longer than a second, and their announcements are under way"
    time.now += 1.1
    assert dealt(announced) == 10, "nothing more has arrived for a second"


def test_what_announcements_passed_over_a_second_ago_is_claimed(announced: Announced, time: Time) -> None:
    for number in (3, 5, 7):
        receive(announced, number)
        time.now += 0.6
    assert dealt(announced) == 6, "those up to 5: later ones may be on their way to a claim"


def test_a_worker_without_room_has_missed_nothing(announced: Announced, time: Time) -> None:
    receive(announced, 0)
    for _ in range(20):
        time.now += 0.5
        announced.occupied()
    assert dealt(announced) == 1, "only what was passed over"
    time.now += 1.1
    assert dealt(announced) == 10


def test_messages_without_announcements_of_a_lane_do_not_hold_its_runs(announced: Announced, time: Time) -> None:
    receive(announced, 0)
    for _ in range(3):
        time.now += 0.5
        announced.fetched()
        announced.heard({2})
    assert dealt(announced) == 10


def test_a_lane_that_fell_asleep_is_forgotten(announced: Announced) -> None:
    receive(announced, 0)
    announced.forget(1)
    assert announced.until(1, NOW) == A_SECOND_AGO


def test_runs_that_claims_treat_one_by_one_are_not_announced(announced: Announced) -> None:
    assert announced.covers(LANE.key)
    assert not announced.covers(LaneKey(1, "mail", Tier.MEDIUM, "work", Trial.SUSPECT))
    assert not announced.covers(LaneKey(1, "other", Tier.MEDIUM, "work"))
