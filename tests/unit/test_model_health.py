"""What an attempt says of its target."""

from datetime import timedelta

import pytest

from duetime.ids import new_id
from duetime.model.attempt import AttemptState, Completion
from duetime.model.breaker import BreakerPolicy
from duetime.model.failure import Failure, FailureClass
from duetime.model.health import Health
from duetime.model.outcome import Failed, HandedOver, Outcome, Snoozed, Succeeded
from duetime.model.retry import Verdict
from duetime.model.run import Event

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
