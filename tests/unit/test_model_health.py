"""What an attempt says of its target."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.clock import monotonic_from
from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Completion
from duetime.model.breaker import WINDOW, Breaker, BreakerPolicy, BreakerState
from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Failed, HandedOver, Outcome, Snoozed, Succeeded
from duetime.model.retry import Verdict
from duetime.model.run import Event
from duetime.model.target_health import Health

TARGET = (1, "duetime.http/shop.example.com")


@pytest.mark.parametrize(
    ("outcome", "counted"),
    [
        (Succeeded(), (1, 0)),
        (HandedOver(timedelta(hours=1)), (1, 0)),
        (Failed(Failure(FailureClass.NETWORK, "away")), (1, 1)),
        (Failed(Failure(FailureClass.TARGET_REFUSED, "never")), (1, 0)),
    ],
)
def test_what_counts(outcome: Outcome, counted: tuple[int, int]) -> None:
    health = Health(BreakerPolicy())
    completion = Completion(new_id(), 1, Verdict(Event.FAIL), AttemptState.FAILED)
    assert health.weigh(TARGET, 1, outcome, completion) is completion
    (tally,) = health.take()
    assert (tally.tenant_id, tally.target, tally.tried, tally.failed) == (*TARGET, *counted)


def test_what_was_not_tried_says_nothing() -> None:
    health = Health(BreakerPolicy())
    completion = Completion(new_id(), 1, Verdict(Event.RELEASE), AttemptState.SNOOZED)
    health.weigh(TARGET, 1, Snoozed(timedelta(0)), completion)
    assert health.take() == []


def _tried(target: str) -> Breaker:
    """One at which all attempts of the last seconds were retries."""
    since = datetime(2026, 1, 1, tzinfo=UTC)
    return Breaker(1, target, BreakerState.CLOSED, since, tried=50, retried=50)


@pytest.mark.parametrize(("later", "waits_longer"), [(1, True), (3600, False)], ids=["at once", "an hour later"])
def test_what_happened_long_ago_delays_no_retry(later: float, waits_longer: bool) -> None:
    health, passed = Health(BreakerPolicy()), 1000.0
    with monotonic_from(lambda: passed):
        health.learn([_tried(TARGET[1])])
        passed += later
        verdict = Verdict(Event.RETRY, timedelta(seconds=1))
        completion = Completion(new_id(), 1, verdict, AttemptState.FAILED)
        weighed = health.weigh(TARGET, 1, Failed(Failure(FailureClass.NETWORK, "away")), completion)
    assert (weighed.verdict.delay != verdict.delay) == waits_longer


def test_targets_that_nobody_tries_any_more_are_forgotten() -> None:
    health, passed = Health(BreakerPolicy()), 1000.0
    with monotonic_from(lambda: passed):
        health.learn([_tried(f"duetime.http/{number}.example.com") for number in range(10_000)])
        passed += 20
        health.learn([_tried("duetime.http/7.example.com")])
        health.take()
        assert len(health._known) == 10_000
        passed += WINDOW.total_seconds() - 10
        health.take()
        assert list(health._known) == [(1, "duetime.http/7.example.com")]
        passed += WINDOW.total_seconds()
        health.take()
        assert len(health._known) == 0
