"""What alerts and check-ins report: what is wrong, since when, what was expected, and what to do, with a link."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from duetime.duration import format_duration
from duetime.ids import show
from duetime.model.alert import TOPICS, Alert, AlertRule, Figure, Reading, Turn
from duetime.model.notification import Message


class _Words(NamedTuple):
    unit: str
    advice: str
    page: str
    """The page of the dashboard that shows more."""


_OF_QUEUES = {
    Figure.DEAD_LETTERS: _Words("dead letters", "Fix the errors, then replay or discard them.", "/dead-letters"),
    Figure.LAG_P95: _Words("seconds of lag", "Add workers or slots, or raise a limit that holds runs back.", "/queues"),
    Figure.BACKLOG: _Words("runs waiting", "Add workers or slots, or raise a limit that holds runs back.", "/queues"),
    Figure.WORKERS: _Words("workers", "Start workers, or find out why they stopped.", "/workers"),
    Figure.FREE_SLOTS: _Words("free slots", "Add workers or slots.", "/workers"),
    Figure.DURATION: _Words(
        "times their usual duration", "Look at the slowest runs, and at what they call.", "/runs?status=RUNNING"
    ),
    Figure.UNSERVED: _Words("lanes without a worker", "Start workers that have these tasks.", "/workers"),
}

UNITS: dict[Figure, str] = {figure: words.unit for figure, words in _OF_QUEUES.items()} | {
    Figure.NO_SUCCESS: "seconds without a success",
    Figure.NOT_STARTED: "seconds of waiting for a start",
    Figure.OVERTIME: "times the usual maximum",
}
"""What the value of a figure counts, in words."""


def compose(alert: Alert, turn: Turn, reading: Reading, public_url: str | None) -> Message:
    """The message of an alert that has just opened or closed."""
    rule = alert.rule
    assert alert.changed_at is not None
    facts = {name: value for name, value in reading.facts.items() if value is not None}
    url = link(public_url, _page(rule, facts))
    if turn == "opened":
        text, advice = _wrong(alert, facts)
        text = f"{rule.name}: {text}. {advice}"
    else:
        text = f"{rule.name}: resolved, {_good(alert, facts)}."
    since = alert.wrong_since or alert.changed_at
    data = {
        "alert": rule.name,
        "turn": turn,
        "figure": rule.figure,
        "queue": rule.queue,
        "job_id": None if rule.job is None else show("job", rule.job),
        "task": rule.task,
        "tag": rule.tag,
        "value": alert.value,
        "threshold": rule.threshold,
        "since": since.isoformat() if turn == "opened" else None,
        "url": url,
    }
    return Message(TOPICS[rule.figure], alert.changed_at, with_link(text, url), facts | _given(data))


def with_link(text: str, url: str | None) -> str:
    return text if url is None else f"{text} {url}"


def link(public_url: str | None, page: str) -> str | None:
    return None if public_url is None else public_url.rstrip("/") + page


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def seconds(value: float) -> str:
    """A duration to a precision that people care about."""
    return format_duration(timedelta(seconds=round(value) if value >= 10 else round(value, 1)))


def subject(rule: AlertRule, facts: Mapping[str, Any]) -> str:
    where = f" in the queue {rule.queue}" if rule.queue else ""
    if rule.job is not None:
        name = facts.get("name")
        return f"the job {name + ' ' if name else ''}({show('job', rule.job)})"
    if rule.task is not None:
        return f"the task {rule.task}{where}"
    if rule.tag is not None:
        return f"jobs with the tag {rule.tag}{where}"
    return f"the queue {rule.queue}" if rule.queue else "any job"


def _wrong(alert: Alert, facts: Mapping[str, Any]) -> tuple[str, str]:
    """What is wrong, and what to do about it."""
    rule = alert.rule
    value = 0.0 if alert.value is None else alert.value
    match rule.figure:
        case Figure.NO_SUCCESS:
            last = f"the last one ended at {moment(alert.good_at)}" if alert.good_at else "none since it is watched"
            said = f"no run of {subject(rule, facts)} has succeeded for {seconds(value)} ({last}); expected one within"
            return f"{said} {seconds(rule.threshold)}", _advice_for_silence(rule, facts)
        case Figure.NOT_STARTED:
            waits = f"{_run(facts)}, due at {moment(datetime.fromisoformat(facts['due_at']))},"
            said = f"{waits} has not started and has waited for {seconds(value)}; expected a start within"
            return f"{said} {seconds(rule.threshold)}", _advice_for_waiting(facts)
        case Figure.OVERTIME:
            doing = "has been running for" if facts.get("running") else "took"
            usual = f"usually at most {seconds(facts['usual_seconds'])}, by its last {facts['sample']} runs"
            said = f"{_run(facts)} {doing} {seconds(facts['seconds'])}; {usual}"
            since = moment(datetime.fromisoformat(facts["started_at"]))
            return f"{said} (started at {since})", "Look at its log and at what it calls; cancel it if it hangs."
        case _:
            words = _OF_QUEUES[rule.figure]
            where = f" in the queue {rule.queue}" if rule.queue else ""
            side = "at least" if rule.falls else "at most"
            since = f", since {moment(alert.wrong_since)}" if alert.wrong_since else ""
            return f"{value:g} {words.unit}{where}{since}; expected {side} {rule.threshold:g}", words.advice


def _advice_for_silence(rule: AlertRule, facts: Mapping[str, Any]) -> str:
    if facts.get("job_state") == "gone":
        return "The job was deleted: create it again, or delete this rule."
    if facts.get("job_state") in ("ENDED", "CANCELLED"):
        return f"The job is {facts['job_state'].lower()}: create it again, or delete this rule."
    if facts.get("problem"):
        return f"The job does not fire: {facts['problem']}."
    return "Look at its last runs and their errors; if there are none, check that it is scheduled and has workers."


def _advice_for_waiting(facts: Mapping[str, Any]) -> str:
    if facts.get("not_fired"):
        return "Its occurrence has not been fired: check the servers' logs, and the tenant's limit of fires a second."
    if facts.get("no_worker"):
        return f"No live worker takes {facts['task']} from the queue {facts['queue']}: start one."
    return f"Add workers or slots for the queue {facts['queue']}, or look for a limit or a breaker that holds it back."


def _run(facts: Mapping[str, Any]) -> str:
    shown = facts.get("run_id") or facts["job_id"]
    return f"{facts.get('name') or facts['task']} ({shown})"


def _good(alert: Alert, facts: Mapping[str, Any]) -> str:
    rule, value = alert.rule, 0.0 if alert.value is None else alert.value
    match rule.figure:
        case Figure.NO_SUCCESS:
            when = f" at {moment(alert.good_at)}" if alert.good_at else ""
            return f"a run of {subject(rule, facts)} succeeded{when}"
        case Figure.NOT_STARTED:
            return f"no run of {subject(rule, facts)} waits for longer than {seconds(rule.threshold)}"
        case Figure.OVERTIME:
            return f"runs of {subject(rule, facts)} take their usual time"
        case _:
            where = f" in the queue {rule.queue}" if rule.queue else ""
            return f"back to {value:g} {_OF_QUEUES[rule.figure].unit}{where}"


def _page(rule: AlertRule, facts: Mapping[str, Any]) -> str:
    if "run_id" in facts:
        return f"/runs/{facts['run_id']}"
    if rule.job is not None:
        return f"/jobs/{show('job', rule.job)}"
    if rule.figure in _OF_QUEUES:
        return _OF_QUEUES[rule.figure].page
    return "/runs"


def _given(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if value is not None or name in ("queue", "value")}
