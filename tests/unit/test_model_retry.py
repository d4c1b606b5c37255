"""When a run is tried again."""

from datetime import timedelta
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetime.model.failure import Failure, FailureClass
from duetime.model.outcome import Cancelled, Failed, Snoozed, Succeeded
from duetime.model.retry import RetryPolicy, decide, decide_lost
from duetime.model.run import Event

ERROR = Failure(FailureClass.ERROR, "no", ("app.errors.Busy", "builtins.OSError", "builtins.Exception"))
RANDOM = Random(7)

policies = st.builds(
    RetryPolicy,
    retries=st.integers(0, 50),
    base=st.floats(0.001, 1000),
    factor=st.floats(1, 10),
    cap=st.floats(0.001, 100_000),
)


@given(policies, st.integers(1, 10_000), st.integers())
def test_a_backoff_is_anywhere_up_to_its_exponential_bound(policy: RetryPolicy, failures: int, seed: int) -> None:
    delay = policy.backoff(failures, Random(seed)).total_seconds()
    assert 0 <= delay <= policy.cap + 1e-6
    assert delay <= policy.base * policy.factor ** min(failures - 1, 64) + 1e-6


def test_backoffs_spread_over_their_whole_range() -> None:
    delays = [RetryPolicy(base=100).backoff(1, RANDOM).total_seconds() for _ in range(500)]
    assert min(delays) < 5
    assert max(delays) > 95


@given(policies, st.integers(1, 60))
def test_a_failure_is_retried_until_the_attempts_are_spent(policy: RetryPolicy, attempt: int) -> None:
    verdict = decide(Failed(ERROR), policy, attempt, RANDOM)
    if attempt > policy.retries:
        assert (verdict.event, verdict.delay) == (Event.FAIL, None)
    else:
        assert verdict.event is Event.RETRY
        assert verdict.delay is not None
    assert verdict.spent


def test_three_retries_are_four_attempts() -> None:
    events = [decide(Failed(ERROR), RetryPolicy(), attempt, RANDOM).event for attempt in (1, 2, 3, 4)]
    assert events == [Event.RETRY, Event.RETRY, Event.RETRY, Event.FAIL]


def test_what_the_task_asks_for_goes_before_the_backoff() -> None:
    failure = Failure(FailureClass.ERROR, "busy", retry_after=77.5)
    assert decide(Failed(failure), RetryPolicy(), 1, RANDOM).delay == timedelta(seconds=77.5)
    assert decide(Failed(failure), RetryPolicy(), 4, RANDOM).event is Event.FAIL


def test_the_other_outcomes() -> None:
    assert decide(Succeeded(), RetryPolicy(retries=0), 9, RANDOM).event is Event.SUCCEED
    assert decide(Cancelled("no"), RetryPolicy(), 1, RANDOM).event is Event.CANCEL
    snoozed = decide(Snoozed(timedelta(seconds=5)), RetryPolicy(retries=0), 9, RANDOM)
    assert (snoozed.event, snoozed.delay, snoozed.spent) == (Event.RELEASE, timedelta(seconds=5), False)


@pytest.mark.parametrize("kind", FailureClass)
def test_some_failures_are_never_cured_by_trying_again(kind: FailureClass) -> None:
    never = {FailureClass.TARGET_REFUSED, FailureClass.GAVE_UP, FailureClass.CANCELLED}
    assert RetryPolicy().may_retry(Failure(kind, "")) == (kind not in never)


@pytest.mark.parametrize("name", ["app.errors.Busy", "Busy", "OSError", "builtins.OSError", "Exception"])
def test_names_match_in_full_or_by_the_class_and_its_bases(name: str) -> None:
    assert RetryPolicy(retry_on=(name,)).may_retry(ERROR)
    assert not RetryPolicy(give_up_on=(name,)).may_retry(ERROR)
    assert not RetryPolicy(retry_on=(name,), give_up_on=(name,)).may_retry(ERROR)


@pytest.mark.parametrize("name", ["Bus", "errors.Busy", "ValueError", "other.errors.Busy"])
def test_other_names_do_not_match(name: str) -> None:
    assert not RetryPolicy(retry_on=(name,)).may_retry(ERROR)
    assert RetryPolicy(give_up_on=(name,)).may_retry(ERROR)


def test_a_failure_without_an_exception_is_not_kept_from_being_retried() -> None:
    assert RetryPolicy(retry_on=("Busy",)).may_retry(Failure(FailureClass.TIMEOUT, "too long"))


def test_a_lost_run_is_tried_again_at_once_and_not_for_ever() -> None:
    verdicts = [decide_lost(RetryPolicy(), lost, at_most_once=False) for lost in (1, 2, 3, 4)]
    assert [verdict.event for verdict in verdicts] == [Event.RETRY, Event.RETRY, Event.RETRY, Event.FAIL]
    assert {(verdict.delay, verdict.spent) for verdict in verdicts[:3]} == {(timedelta(0), False)}
    assert decide_lost(RetryPolicy(), 1, at_most_once=True).event is Event.FAIL


def test_texts_of_failures_are_bounded_and_safe_for_every_store() -> None:
    failure = Failure(FailureClass.ERROR, "a\x00b\ud800" + "x" * 10_000, ("app.Busy",), "line\n" * 10_000)
    text = failure.text
    text.encode()
    assert "\x00" not in text
    assert len(text) < 20_200
    assert text.startswith("app.Busy: a")
    assert "characters …" in text
    assert text.endswith("line\n")
