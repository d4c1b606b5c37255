"""Notifications about a run: the topics of an event, a sentence for people and data for programs."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from duetime.ids import show
from duetime.model.event import EventKind
from duetime.model.notification import OF_EVENTS, QUEUE, Message, RunNews, Subscription, Topic


def messages(kind: EventKind, at: datetime, run: RunNews, subscription: Subscription) -> Iterator[Message]:
    """The messages for this subscription when this happens to a run."""
    if run.queue == QUEUE or not subscription.covers(run):
        return
    for topic in OF_EVENTS[kind]:
        if subscription.wants(topic) and _is_so(topic, run, subscription):
            yield Message(topic, at, _sentence(topic, kind, run), _figures(kind, run))


def _is_so(topic: Topic, run: RunNews, subscription: Subscription) -> bool:
    match topic:
        case Topic.RUN_LATE:
            is_first = run.started_at == run.first_started_at
            return is_first and _lag(run) > timedelta(seconds=subscription.late_after)
        case Topic.RUN_FAILED:
            return run.failure is not None  # a run that was handed back waits again too, without a failure
        case _:
            return True


def _lag(run: RunNews) -> timedelta:
    return timedelta(0) if run.first_started_at is None else run.first_started_at - run.due_at


def _sentence(topic: Topic, kind: EventKind, run: RunNews) -> str:
    what = f"{run.options.name or run.task} ({show('run', run.id)})"
    first_line = (run.error or "").partition("\n")[0]
    why = f": {first_line[:300]}" if first_line else ""
    match topic:
        case Topic.RUN_SUCCEEDED:
            return f"{what} succeeded"
        case Topic.RUN_FAILED:
            again = " and is retried" if kind is EventKind.RETRYING else ""
            return f"attempt {run.attempt} of {what} failed{again}{why}"
        case Topic.RUN_DEAD:
            return f"{what} failed permanently after {run.attempt} attempts{why}"
        case Topic.RUN_LATE:
            return f"{what} started {_lag(run).total_seconds():.1f} s late"
        case Topic.RUN_SLOW:
            return f"{what} has been running for more than {run.options.warn_after:g} s"
        case _:
            return f"{what} was due at {run.due_at.isoformat()} and did not run{why}"


def _figures(kind: EventKind, run: RunNews) -> dict[str, Any]:
    return {
        "run_id": show("run", run.id),
        "job_id": show("job", run.job_id),
        "name": run.options.name,
        "owner": run.options.owner,
        "tags": list(run.options.tags),
        "task": run.task,
        "queue": run.queue,
        "attempt": run.attempt,
        "will_retry": kind is EventKind.RETRYING,
        "due_at": run.due_at.isoformat(),
        "started_at": None if run.started_at is None else run.started_at.isoformat(),
        "finished_at": None if run.finished_at is None else run.finished_at.isoformat(),
        "lag_seconds": round(_lag(run).total_seconds(), 6),
        "failure": None if run.failure is None else run.failure.name,
        "error": run.error,
    }
