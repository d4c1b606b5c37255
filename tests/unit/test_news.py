"""What a subscription is told about a run, and what not."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from duetime.errors import InvalidInput
from duetime.model.event import EventKind
from duetime.model.failure import FailureClass
from duetime.model.job import Options
from duetime.model.notification import (
    QUEUE,
    Email,
    RunNews,
    Subscription,
    Topic,
    Webhook,
    decode_subscription,
    encode_subscription,
    make_subscription,
)
from duetime.model.run_messages import messages

DUE = datetime(2026, 5, 4, 9, 0, tzinfo=UTC)
HOOK = Webhook("https://example.com/hook")


def run(**given: object) -> RunNews:
    fields: dict[str, object] = {
        "id": uuid4(),
        "job_id": uuid4(),
        "task": "report",
        "queue": "mail",
        "attempt": 1,
        "due_at": DUE,
        "started_at": DUE + timedelta(seconds=90),
        "finished_at": None,
        "failure": None,
        "error": None,
        "options": Options(tags=("nightly",)),
        "first_started_at": DUE + timedelta(seconds=90),
    }
    return RunNews(**{**fields, **given})  # type: ignore[arg-type]


def told(kind: EventKind, news: RunNews, **given: object) -> list[str]:
    topics = given.pop("topics", ("*",))
    subscription = Subscription("ops", HOOK, topics, **given)  # type: ignore[arg-type]
    return [str(message.topic) for message in messages(kind, DUE, news, subscription)]


def test_topics_of_events() -> None:
    failed = run(failure=FailureClass.ERROR, error="ValueError: no\n  at line 3")
    assert told(EventKind.SUCCEEDED, run()) == ["run.succeeded"]
    assert told(EventKind.RETRYING, failed) == ["run.failed"]
    assert told(EventKind.RETRYING, run()) == [], "it was handed back, and nothing failed"
    assert told(EventKind.FAILED, failed) == ["run.failed", "run.dead"]
    assert told(EventKind.STARTED, run()) == ["run.late"]
    assert told(EventKind.STARTED, run(), late_after=90.0) == []
    again = {"started_at": DUE + timedelta(seconds=900)}
    assert told(EventKind.STARTED, run(attempt=2, **again)) == [], "a retry is not late"
    assert told(EventKind.STARTED, run(**again)) == [], "nor is one that snoozed"
    assert told(EventKind.SKIPPED, run()) == ["job.missed"]


def test_only_what_was_asked_for() -> None:
    dead = run(failure=FailureClass.ERROR)
    assert told(EventKind.FAILED, dead, topics=(Topic.RUN_DEAD,)) == ["run.dead"]
    assert told(EventKind.FAILED, dead, topics=(Topic.RUN_SUCCEEDED,)) == []
    assert told(EventKind.FAILED, dead, paused=True) == []
    assert told(EventKind.SUCCEEDED, run(), queues=("mail",), tags=("nightly", "other")) == ["run.succeeded"]
    assert told(EventKind.SUCCEEDED, run(), queues=("other",)) == []
    assert told(EventKind.SUCCEEDED, run(), tags=("other",)) == []
    news = run()
    assert told(EventKind.SUCCEEDED, news, jobs=(news.job_id,)) == ["run.succeeded"]
    assert told(EventKind.SUCCEEDED, news, jobs=(uuid4(),)) == []


def test_what_happens_to_a_notification_is_told_to_nobody() -> None:
    for kind in (EventKind.FAILED, EventKind.SUCCEEDED, EventKind.STARTED, EventKind.RETRYING):
        assert told(kind, run(queue=QUEUE, failure=FailureClass.ERROR)) == []


def test_the_words_and_the_figures() -> None:
    news = run(failure=FailureClass.ERROR, error="ValueError: no\n  at line 3", options=Options(name="nightly report"))
    _, dead = messages(EventKind.FAILED, DUE, news, Subscription("ops", HOOK, ("*",)))
    assert dead.text.startswith("nightly report (run_")
    assert dead.text.endswith("failed permanently after 1 attempts: ValueError: no")
    assert dead.data["failure"] == "ERROR"
    assert dead.data["lag_seconds"] == 90.0
    assert "args" not in dead.data


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"name": "no name"}, "name"),
        ({"topics": ()}, "topics"),
        ({"topics": ("run.dead", "run.odd")}, "topics[1]"),
        ({"queues": ("no queue",)}, "queues[0]"),
        ({"tags": ("",)}, "tags[0]"),
        ({"late_after": -1.0}, "late_after"),
        ({"to": Email("nobody")}, "to.address"),
        ({"to": Email("a@example.com\r\nBcc: b@example.com")}, "to.address"),
        ({"to": Email("a b@example.com")}, "to.address"),
        ({"to": Email("a@localhost")}, "to.address"),
    ],
)
def test_subscriptions_that_make_no_sense_are_refused(given: dict[str, object], field: str) -> None:
    fields = {"name": "ops", "to": HOOK, "topics": ("run.dead",), **given}
    with pytest.raises(InvalidInput) as refused:
        make_subscription(Subscription(**fields))  # type: ignore[arg-type]
    assert refused.value.field == field


def test_a_subscription_survives_its_storage() -> None:
    whole = Subscription("ops", Email("ops@example.com"), ("*",), ("mail",), ("nightly",), (uuid4(),), 5.0, paused=True)
    assert decode_subscription(encode_subscription(whole)) == whole
