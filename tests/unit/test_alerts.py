"""When an alert opens and closes: once each way, however its figure swings."""

from datetime import UTC, datetime, timedelta

import pytest

from duetime.engine.alert_figures import percentile
from duetime.errors import InvalidInput
from duetime.model.alert import Alert, AlertRule, Figure, Reading, judge, make_rule
from duetime.model.alert_messages import compose

START = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)


def turns(rule: AlertRule, values: list[float | None], step: float = 5.0) -> list[str | None]:
    alert, found = Alert(1, rule), []
    for index, value in enumerate(values):
        alert, turn = judge(alert, Reading(value), START + timedelta(seconds=index * step))
        found.append(turn)
    return found


def test_it_opens_above_and_closes_below() -> None:
    rule = AlertRule("many", Figure.DEAD_LETTERS, 100, until=50)
    assert turns(rule, [100, 101, 120, 60, 51, 50, 90]) == [None, "opened", None, None, None, "closed", None]


def test_a_figure_that_swings_is_told_of_once() -> None:
    rule = AlertRule("late", Figure.LAG_P95, 10)
    swinging = [9.5, 10.5, 9.5, 10.5, 9.5, 10.5]
    assert turns(rule, swinging) == [None, "opened", None, None, None, None]
    assert turns(rule, [10.5, 8.9, 10.5]) == ["opened", "closed", "opened"]


def test_less_is_worse_for_workers_and_slots() -> None:
    rule = AlertRule("few", Figure.WORKERS, 3, until=4)
    assert turns(rule, [5, 3, 2, 3, 4]) == [None, None, "opened", None, "closed"]


@pytest.mark.parametrize(
    ("figure", "threshold", "values"),
    [
        (Figure.WORKERS, 1, [1, 0, 1]),
        (Figure.WORKERS, 2, [2, 1, 2]),
        (Figure.FREE_SLOTS, 20, [25, 19, 22]),
        (Figure.BACKLOG, 1, [1, 2, 1]),
        (Figure.DEAD_LETTERS, 0, [0, 1, 0]),
        (Figure.BACKLOG, 100, [100, 101, 90]),
        (Figure.UNSERVED, 1, [1, 2, 1]),
        (Figure.BACKLOG, 1.5, [1, 2, 1]),
    ],
)
def test_by_default_a_count_closes_at_a_whole_number_that_it_can_reach(
    figure: Figure, threshold: float, values: list[float | None]
) -> None:
    assert turns(AlertRule("count", figure, threshold), values) == [None, "opened", "closed"]


@pytest.mark.parametrize("figure", [Figure.BACKLOG, Figure.DEAD_LETTERS, Figure.UNSERVED])
def test_a_count_beyond_a_threshold_that_is_no_whole_number_keeps_the_alert_open(figure: Figure) -> None:
    assert turns(AlertRule("count", figure, 0.5), [1, 1, 1, 0]) == ["opened", None, None, "closed"]


def test_it_may_have_to_be_wrong_for_a_while() -> None:
    rule = AlertRule("long", Figure.BACKLOG, 10, for_seconds=10)
    assert turns(rule, [11, 11, 11]) == [None, None, "opened"]
    assert turns(rule, [11, 11, 9, 11, 11, 11]) == [None, None, None, None, None, "opened"]


def test_what_cannot_be_known_changes_nothing() -> None:
    rule = AlertRule("slow", Figure.DURATION, 3)
    assert turns(rule, [4, None, None, 4]) == ["opened", None, None, None]
    assert turns(rule, [None, 1]) == [None, None]


def test_a_message_says_what_is_wrong_since_when_what_was_expected_and_what_to_do() -> None:
    rule = AlertRule("late-mail", Figure.LAG_P95, 10, queue="mail")
    opened, turn = judge(Alert(1, rule), Reading(12.5), START)
    assert turn == "opened"
    message = compose(opened, "opened", Reading(12.5), "https://duetime.example.com/")
    assert message.text == (
        "late-mail: 12.5 seconds of lag in the queue mail, since 2026-05-04 09:00:00 UTC; expected at most 10."
        " Add workers or slots, or raise a limit that holds runs back. https://duetime.example.com/queues"
    )
    assert (message.data["turn"], message.data["since"]) == ("opened", START.isoformat())
    closed = compose(opened, "closed", Reading(12.5), None)
    assert closed.text == "late-mail: resolved, back to 12.5 seconds of lag in the queue mail."


@pytest.mark.parametrize(
    ("rule", "field"),
    [
        (AlertRule("no name", Figure.BACKLOG, 1), "name"),
        (AlertRule("a", Figure.BACKLOG, -1), "threshold"),
        (AlertRule("a", Figure.BACKLOG, float("nan")), "threshold"),
        (AlertRule("a", Figure.BACKLOG, 10, until=11), "until"),
        (AlertRule("a", Figure.WORKERS, 10, until=9), "until"),
        (AlertRule("a", Figure.BACKLOG, 10, for_seconds=-1), "for_seconds"),
        (AlertRule("a", Figure.BACKLOG, 10, queue="no queue"), "queue"),
        (AlertRule("a", Figure.BACKLOG, 10, task="report"), "task"),
        (AlertRule("a", Figure.NO_SUCCESS, 60, task="report", tag="nightly"), "tag"),
        (AlertRule("a", Figure.NO_SUCCESS, 1, task="report"), "threshold"),
        (AlertRule("a", Figure.OVERTIME, 0.5, task="report"), "threshold"),
    ],
)
def test_rules_that_make_no_sense_are_refused(rule: AlertRule, field: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        make_rule(rule)
    assert refused.value.field == field


def test_percentiles() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.95) == 3.0
    assert percentile([float(value) for value in range(1, 101)], 0.95) == 95.0
    assert percentile([7.0], 0.5) == 7.0
