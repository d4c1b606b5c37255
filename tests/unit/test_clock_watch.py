"""The clock of the database beside monotonic time: what counts as a jump."""

from datetime import UTC, datetime, timedelta

from duetime.engine.reaper import ClockWatch

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_jump_is_what_the_clock_moved_beyond_time() -> None:
    watch = ClockWatch()
    assert watch.jump(START, 100.0) == 0.0, "there is nothing to compare the first reading with"
    assert watch.jump(later(1), 101.0) == 0.0
    assert watch.jump(later(302), 102.0) == 300.0
    assert watch.jump(later(3), 103.0) == -300.0


def test_an_answer_that_was_held_up_is_no_jump() -> None:
    """It was read at some time between the question and the answer, and so was the one before it."""
    watch = ClockWatch()
    watch.jump(START, 100.0)
    assert watch.jump(later(1), 103.0, doubt=2.0) == 0.0, "read at once, answered four seconds later"
    assert watch.jump(later(6), 106.0) == 0.0, "what was in doubt then is in doubt now"
    assert watch.jump(later(17), 107.0, doubt=3.0) == 7.0
