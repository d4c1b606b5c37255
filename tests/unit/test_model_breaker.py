"""When breakers open and close, and when a retry is one too many."""

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from duetime.model.attempt import AttemptState, Completion
from duetime.model.breaker import (
    Breaker,
    BreakerPolicy,
    BreakerState,
    Tally,
    after_attempts,
    after_time,
    is_of_the_target,
    retry_delay,
)
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, Succeeded
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.model.target_health import Health
from duetime.worker.outcomes import describe

NOW = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
POLICY = BreakerPolicy()
DOWN = Failed(Failure(FailureClass.NETWORK, "no route"))


def breaker(state: BreakerState, tried: int = 0, failed: int = 0, trips: int = 1) -> Breaker:
    return Breaker(1, "api", state, NOW, NOW, trips, tried, failed)


@pytest.mark.parametrize(("error", "of_the_target"), [
    (ConnectionRefusedError(), True),
    (TimeoutError(), True),
    (ValueError("bad arguments"), False),
    (FileNotFoundError("of the task itself"), False),
])  # fmt: skip
def test_only_what_another_run_would_meet_too_is_the_targets_failure(error: Exception, of_the_target: bool) -> None:
    assert is_of_the_target(describe(error)) is of_the_target


def test_a_refusal_says_something_about_the_run() -> None:
    assert is_of_the_target(Failure(FailureClass.TARGET_FAILED, "503"))
    assert not is_of_the_target(Failure(FailureClass.TARGET_REFUSED, "404"))


def test_each_pause_is_longer_up_to_a_bound() -> None:
    pauses = []
    for trips in range(4):
        step = after_attempts(breaker(BreakerState.PROBING, 1, 1, trips), POLICY, NOW, 0)
        assert step is not None
        assert step.until is not None
        pauses.append((step.until - NOW).total_seconds())
    assert pauses == [5.0, 6.0, 6.0, 6.0]


def test_the_backlog_is_spread() -> None:
    step = after_attempts(breaker(BreakerState.PROBING, 3), POLICY, NOW, 20_000)
    assert step is not None
    assert step.state is BreakerState.RECOVERING
    assert step.rate is not None
    assert step.rate.count == 211
    few = after_attempts(breaker(BreakerState.PROBING, 3), POLICY, NOW, 5)
    assert few is not None
    assert few.rate is not None
    assert few.rate.count == 4


def recovering(flow: int, waited: int, now: datetime = NOW) -> Breaker:
    """One whose time is over, that let through so many in 0.4 s while so many waited at first."""
    since = now - timedelta(seconds=waited / flow * 0.4 + 1)
    return Breaker(1, "api", BreakerState.RECOVERING, since, now, 1, flow=flow)


def test_whoever_still_waits_then_does_not_come_all_at_once() -> None:
    step = after_time(recovering(211, 20_000), NOW, 5_000)
    assert step is not None
    assert step.state is BreakerState.RECOVERING
    assert step.rate is not None
    assert step.rate.count == 211
    over = after_time(recovering(211, 20_000), NOW, 500)
    assert over is not None
    assert over.state is BreakerState.CLOSED


def test_a_flow_that_those_who_wait_do_not_get_ahead_with_grows() -> None:
    step = after_time(recovering(100, 5_000), NOW, 5_000)
    assert step is not None
    assert step.rate is not None
    assert step.rate.count == 200
    crowd = after_time(recovering(4, 0), NOW, 19_000)
    assert crowd is not None
    assert crowd.rate is not None
    assert crowd.rate.count == 200, "they came in the meantime: over 38 s as well"


@pytest.mark.parametrize("load", [5, 12, 50, 5_000])
def test_it_closes_under_a_steady_load(load: int) -> None:
    """So many runs a second arrive, and each succeeds."""
    now, waiting, highest = NOW, 6.0 * load, 0.0
    step = after_attempts(breaker(BreakerState.PROBING, 3), POLICY, now, int(waiting))
    while step is not None and step.state is not BreakerState.CLOSED:
        assert now < NOW + timedelta(minutes=3)
        assert step.rate is not None
        assert step.until is not None
        begun, now = now, step.until
        highest = step.rate.count / 0.4
        waiting = max(0.0, waiting + (now - begun).total_seconds() * (load - highest))
        held = Breaker(1, "api", step.state, begun, now, step.trips, flow=step.rate.count)
        step = after_time(held, now, int(waiting))
    assert highest <= max(10, 4 * load)


def test_a_retry_waits_longer_when_a_target_has_had_its_share() -> None:
    delay = timedelta(seconds=1)
    assert retry_delay(Tally(1, "api", 100, 90, 29), POLICY, delay, Random(1)) == delay
    assert retry_delay(Tally(1, "api", 100, 90, 30), POLICY, delay, Random(1)) > timedelta(seconds=15)
    assert retry_delay(Tally(1, "api", 5, 5, 5), POLICY, delay, Random(1)) == delay, "a few are always allowed"


def test_what_all_nodes_have_counted_weighs() -> None:
    health = Health(POLICY)
    retry = Completion(
        run_id=None,  # type: ignore[arg-type]
        fence=1,
        verdict=Verdict(Event.RETRY, timedelta(seconds=1)),
        attempt_state=AttemptState.FAILED,
    )
    assert health.weigh((1, "api"), 1, DOWN, retry) is retry
    health.learn([Breaker(1, "api", BreakerState.CLOSED, NOW, tried=20, failed=20, retried=20)])
    later = health.weigh((1, "api"), 2, DOWN, retry).verdict
    assert later.delay is not None
    assert later.delay > timedelta(seconds=15)
    assert later.spent
    assert health.weigh((1, "api"), 1, Succeeded(), retry) is retry
    assert health.take() == [Tally(1, "api", 3, 2, 1)]
    assert health.take() == []


def test_a_report_that_did_not_arrive_is_made_again() -> None:
    health = Health(POLICY)
    health.note((1, "api"), failed=True, retry=False)
    tallies = health.take()
    health.note((1, "api"), failed=False, retry=False)
    health.put_back(tallies)
    assert health.take() == [Tally(1, "api", 2, 1, 0)]
