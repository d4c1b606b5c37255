"""The clock of the database beside monotonic time: what counts as a step, and from when ages are counted."""

from datetime import UTC, datetime, timedelta

from duetime.engine.clock_guard import Ages, ClockWatch

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_a_step_is_what_the_clock_moved_beyond_time() -> None:
    watch = ClockWatch()
    assert watch.step(START, 100.0) == (0.0, 0.0), "there is nothing to compare the first reading with"
    watch.keep(START, 100.0)
    assert watch.step(later(1), 101.0) == (0.0, 0.0)
    assert watch.step(later(302), 102.0) == (300.0, 300.0)
    watch.keep(later(302), 102.0)
    assert watch.step(later(3), 103.0) == (-300.0, -300.0)


def test_an_answer_that_was_held_up_may_hide_a_step_and_is_none() -> None:
    """It was read at some time between the question and the answer, and so was the one before it."""
    watch = ClockWatch()
    watch.keep(START, 100.0)
    assert watch.step(later(1), 103.0, doubt=2.0) == (-4.0, 0.0), "read at once, answered four seconds later"
    watch.keep(later(1), 103.0, doubt=2.0)
    assert watch.step(later(6), 106.0) == (0.0, 4.0), "what was in doubt then is in doubt now"
    watch.keep(later(6), 106.0)
    assert watch.step(later(17), 107.0, doubt=3.0) == (7.0, 13.0)


def test_ages_go_by_the_clock_while_it_runs_evenly() -> None:
    ages = Ages()
    assert ages.count_from(START, 100.0, None) == START
    assert ages.count_from(later(60), 160.0, START) == later(60)
    assert ages.count_from(later(180), 220.0, START) == later(180), "a minute more makes nothing old"
    assert ages.count_from(later(-3600), 280.0, START) == later(-3600)


def test_ages_go_by_time_for_an_hour_after_a_step_and_catch_up_then() -> None:
    ages = Ages()
    ages.count_from(START, 0.0, None)
    day = 86_400.0
    for minute in range(1, 60):
        assert ages.count_from(later(40 * day + 60 * minute), 60.0 * minute, None) == later(60 * minute)
    at = 3600.0
    while ages.count_from(later(40 * day + at), at, None) < later(40 * day + at):
        at += 60.0
    assert 40 * 3600.0 < at < 44 * 3600.0


def test_a_process_that_starts_goes_on_from_what_others_counted_from() -> None:
    day = 86_400.0
    assert Ages().count_from(later(40 * day), 7.0, START) == START
    assert Ages().count_from(later(100), 7.0, START) == later(100), "it was restarted"
    assert Ages().count_from(later(-day), 7.0, START) == later(-day)
