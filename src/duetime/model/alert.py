"""Alerts: a rule watches one figure of a tenant, and reports when it crosses its threshold and when it recovers.

A figure that oscillates around its threshold does not notify repeatedly: an alert opens when the figure has been beyond
the threshold for `for_seconds`, and closes when it has returned to `until`, which lies on the good side.
"""

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from duetime.errors import InvalidInput
from duetime.model.name import check_name
from duetime.model.notification import Topic


class Figure(StrEnum):
    """What a rule can watch. The texts are part of the contract."""

    DEAD_LETTERS = "dead_letters"
    """The number of dead letters."""
    LAG_P95 = "lag_p95"
    """The 95th percentile of the lag in seconds, of the runs of the last minutes, including those that still wait."""
    BACKLOG = "backlog"
    """The number of runs that are ready and wait."""
    WORKERS = "workers"
    """The number of live workers: the alert opens when it falls below the threshold."""
    FREE_SLOTS = "free_slots"
    """The number of free slots of all workers: the alert opens when it falls below the threshold."""
    DURATION = "duration"
    """How many times longer runs of the last minutes took than earlier runs of the same task (95th percentile)."""
    UNSERVED = "unserved"
    """The number of lanes with due runs that no worker can take."""


TOPICS = {
    Figure.DEAD_LETTERS: Topic.DEAD_LETTERS,
    Figure.LAG_P95: Topic.QUEUE_LATE,
    Figure.BACKLOG: Topic.QUEUE_BACKLOG,
    Figure.WORKERS: Topic.WORKERS_LOW,
    Figure.FREE_SLOTS: Topic.WORKERS_LOW,
    Figure.DURATION: Topic.RUNS_SLOW,
    Figure.UNSERVED: Topic.WORKERS_NONE,
}
_FALLING = (Figure.WORKERS, Figure.FREE_SLOTS)
_UNITS = {
    Figure.DEAD_LETTERS: "dead letters",
    Figure.LAG_P95: "seconds of lag",
    Figure.BACKLOG: "runs waiting",
    Figure.WORKERS: "workers",
    Figure.FREE_SLOTS: "free slots",
    Figure.DURATION: "times their usual duration",
    Figure.UNSERVED: "lanes without a worker",
}


class AlertRule(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    figure: Figure
    threshold: float
    """The alert opens above this value (for workers and free slots: below it)."""
    until: float | None = None
    """The value at which it closes; by default a tenth on the good side of the threshold."""
    for_seconds: float = 0.0
    """How long the threshold must be crossed without a break before the alert opens."""
    queue: str | None = None
    """Only this queue; without it all of the tenant's."""

    @property
    def falls(self) -> bool:
        """Whether less is worse."""
        return self.figure in _FALLING

    @property
    def good(self) -> float:
        if self.until is not None:
            return self.until
        return self.threshold * (1.1 if self.falls else 0.9)


class Alert(msgspec.Struct, frozen=True):
    """A rule and its state."""

    tenant_id: int
    rule: AlertRule
    open: bool = False
    value: float | None = None
    wrong_since: datetime | None = None
    """Since when the figure has been beyond the threshold without a break."""
    changed_at: datetime | None = None
    checked_at: datetime | None = None
    version: int = 0
    """Incremented whenever it opens or closes."""


Turn = Literal["opened", "closed"]


def judge(alert: Alert, value: float | None, now: datetime) -> tuple[Alert, Turn | None]:
    """The alert after a new value of its figure. A figure that is unknown now (None) changes nothing."""
    rule = alert.rule
    if value is None:
        return msgspec.structs.replace(alert, checked_at=now), None
    wrong = value < rule.threshold if rule.falls else value > rule.threshold
    good = value >= rule.good if rule.falls else value <= rule.good
    since = (alert.wrong_since or now) if wrong else None
    seen = msgspec.structs.replace(alert, value=value, wrong_since=since, checked_at=now)
    if not alert.open and since is not None and now - since >= timedelta(seconds=rule.for_seconds):
        return msgspec.structs.replace(seen, open=True, changed_at=now, version=alert.version + 1), "opened"
    if alert.open and good:
        return msgspec.structs.replace(seen, open=False, changed_at=now, version=alert.version + 1), "closed"
    return seen, None


def sentence(alert: Alert, turn: Turn) -> str:
    """One sentence for people."""
    rule = alert.rule
    where = f" in the queue {rule.queue}" if rule.queue else ""
    side = "fewer than" if rule.falls else "more than"
    shown = "nothing" if alert.value is None else f"{alert.value:g}"
    if turn == "opened":
        return f"{rule.name}: {shown} {_UNITS[rule.figure]}{where}, {side} {rule.threshold:g}"
    return f"{rule.name}: back to {shown} {_UNITS[rule.figure]}{where}"


def make_rule(rule: AlertRule) -> AlertRule:
    """Validate a rule before it is stored."""
    check_name(rule.name, "name")
    if rule.queue is not None:
        check_name(rule.queue, "queue")
    for field in ("threshold", "until", "for_seconds"):
        number = getattr(rule, field)
        if number is not None and not 0 <= number <= 1e12:
            raise InvalidInput(f"{number:g} is out of range", field=field, remedy="from 0 to 1e12")
    if rule.until is not None and (rule.until < rule.threshold if rule.falls else rule.until > rule.threshold):
        side = "at or above" if rule.falls else "at or below"
        raise InvalidInput("is on the wrong side of the threshold", field="until", remedy=f"{side} {rule.threshold:g}")
    return rule


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AlertRule)


def encode_rule(rule: AlertRule) -> bytes:
    """Equal bytes for equal rules, whether their numbers were written as 100 or as 100.0."""
    return _encoder.encode(_decoder.decode(_encoder.encode(rule)))


def decode_rule(body: bytes) -> AlertRule:
    return _decoder.decode(body)
