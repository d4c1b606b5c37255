"""What a worker knows of its claims."""

import pytest

from duetime.worker import session as sessions
from duetime.worker.session import Session


def test_claims_are_answered_up_to_the_first_that_is_not() -> None:
    session = Session()
    assert session.answered == 0
    first, second, third = session.begin_claim(), session.begin_claim(), session.begin_claim()
    assert session.answered == 0
    session.claimed(second, 2)
    session.claimed(third, 0)
    assert (session.answered, session.open_claims()) == (0, [first, second])
    session.claimed(first, 1)
    assert (session.answered, session.open_claims()) == (third, [first, second])
    assert session.ended(first)
    session.closed([first])
    assert (session.answered, session.open_claims()) == (third, [second])


def test_claims_that_are_held_for_long_are_those_with_answers_and_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(sessions, "monotonic", lambda: now)
    session = Session()
    held, over, unanswered = session.begin_claim(), session.begin_claim(), session.begin_claim()
    session.claimed(held, 2)
    session.claimed(over, 1)
    session.ended(held)
    session.ended(over)
    now = 200.0
    session.claimed(session.begin_claim(), 1)
    assert session.held_since(100.0) == [held]
    assert session.held_since(99.0) == []
    assert unanswered in session.open_claims()
