"""Alerts: a rule watches one figure of a tenant, and reports when it crosses its threshold and when it recovers.

A figure that oscillates around its threshold does not notify repeatedly: an alert opens when the figure has been beyond
the threshold for `for_seconds`, and closes when it has returned to `until`, which lies on the good side.

Time counts only while it was watched. What passed while no node ran, or what the clock skipped in a step, counts for
nothing (`resumed`), and neither does the time before a rule existed, or while its subject was paused.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from math import ceil, floor
from typing import Any, Literal
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.model.name import check_name
from duetime.model.notification import Message, RunNews, Subscription, Topic


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
    NO_SUCCESS = "no_success"
    """Seconds since a run that the rule covers last succeeded."""
    NOT_STARTED = "not_started"
    """The longest time in seconds for which a run that could start has waited for its first start."""
    OVERTIME = "overtime"
    """How many times longer a run takes than runs of its job usually do at the most."""


OF_SUBJECTS = (Figure.NO_SUCCESS, Figure.NOT_STARTED, Figure.OVERTIME)
"""The figures of a job, a task, a tag, a queue or the whole tenant. The others are of queues."""

TOPICS = {
    Figure.DEAD_LETTERS: Topic.DEAD_LETTERS,
    Figure.LAG_P95: Topic.QUEUE_LATE,
    Figure.BACKLOG: Topic.QUEUE_BACKLOG,
    Figure.WORKERS: Topic.WORKERS_LOW,
    Figure.FREE_SLOTS: Topic.WORKERS_LOW,
    Figure.DURATION: Topic.RUNS_SLOW,
    Figure.UNSERVED: Topic.WORKERS_NONE,
    Figure.NO_SUCCESS: Topic.JOB_SILENT,
    Figure.NOT_STARTED: Topic.JOB_NOT_STARTED,
    Figure.OVERTIME: Topic.JOB_OVERTIME,
}
_FALLING = (Figure.WORKERS, Figure.FREE_SLOTS)
_COUNTS = (Figure.DEAD_LETTERS, Figure.BACKLOG, Figure.UNSERVED)
_SOONEST = 10
"""Seconds: successes are heard of some moments later."""


class AlertRule(msgspec.Struct, frozen=True, omit_defaults=True):
    name: str
    figure: Figure
    threshold: float
    """The alert opens above this value (for workers and free slots: below it)."""
    until: float | None = None
    """The value at which it closes; by default a tenth on the good side of the threshold. Of counts, the next whole
    number towards the threshold: two workers of two are enough."""
    for_seconds: float = 0.0
    """How long the threshold must be crossed without a break before the alert opens."""
    queue: str | None = None
    """Only this queue; without it all of the tenant's."""
    job: UUID | None = None
    task: str | None = None
    tag: str | None = None
    """Only this job, this task or jobs with this tag: for the figures of subjects, and one of them at the most."""
    paused: bool = False

    @property
    def falls(self) -> bool:
        """Whether less is worse."""
        return self.figure in _FALLING

    @property
    def good(self) -> float:
        if self.until is not None:
            return self.until
        if self.falls:
            return max(self.threshold, floor(self.threshold * 1.1))
        good = self.threshold * 0.9
        return min(self.threshold, ceil(good)) if self.figure in _COUNTS else good

    @property
    def hears(self) -> bool:
        """Whether it learns of runs from events."""
        return self.figure is Figure.NO_SUCCESS

    def covers(self, run: RunNews) -> bool:
        """Whether a run belongs to the subject."""
        return (
            self.queue in (None, run.queue)
            and self.job in (None, run.job_id)
            and self.task in (None, run.task)
            and (self.tag is None or self.tag in run.options.tags)
        )

    def is_for(self, subscription: Subscription) -> bool:
        """Whether a subscription's filters let its alerts pass: a rule that names no queue, job or tag passes all."""
        return (
            (not subscription.queues or self.queue is None or self.queue in subscription.queues)
            and (not subscription.jobs or self.job is None or self.job in subscription.jobs)
            and (not subscription.tags or self.tag is None or self.tag in subscription.tags)
        )


class Reading(msgspec.Struct, frozen=True):
    """A figure now."""

    value: float | None
    """None: there is no data to judge by."""
    facts: Mapping[str, Any] = {}
    """What the message says beside the value: see `alert_messages.py`."""
    excused: bool = False
    """Nothing is expected now, because the subject is paused: the alert stays as it is."""
    pauses: Mapping[str, datetime] = {}
    """Queues that are paused, or were a while ago, and when that was last seen."""


class Alert(msgspec.Struct, frozen=True):
    """A rule and its state."""

    tenant_id: int
    rule: AlertRule
    open: bool = False
    value: float | None = None
    wrong_since: datetime | None = None
    """Since when the figure has been beyond the threshold without a break."""
    counts_from: datetime | None = None
    """No time before it counts: the last success that was heard of, the end of a pause, the rule's first check."""
    good_at: datetime | None = None
    """When a run that the rule covers last succeeded, as far as it was heard."""
    changed_at: datetime | None = None
    checked_at: datetime | None = None
    judged_at: datetime | None = None
    """When its state was last stored."""
    pauses: Mapping[str, datetime] = {}
    version: int = 0
    """Incremented whenever it opens or closes."""
    told: int = 0
    """The version whose notifications are stored."""
    message: Message | None = None
    """What it reported when it last opened or closed."""


Turn = Literal["opened", "closed"]


def resumed(alert: Alert, now: datetime, stepped_at: datetime | None) -> Alert:
    """The alert before a check: what passed since the last one counts only if it was watched. `stepped_at`: when the
    clock was first seen after a step forward, or after no node had run."""
    last = alert.judged_at
    unseen = timedelta(0)
    if last is not None and (now < last or (stepped_at is not None and stepped_at > last)):
        unseen = now - last
    counts_from = now if alert.counts_from is None else min(alert.counts_from + unseen, now)
    since = None if alert.wrong_since is None else min(alert.wrong_since + unseen, now)
    return msgspec.structs.replace(alert, counts_from=counts_from, wrong_since=since)


def judge(alert: Alert, reading: Reading, now: datetime) -> tuple[Alert, Turn | None]:
    """The alert after a check. A figure that is unknown now (None) changes nothing."""
    rule, value = alert.rule, reading.value
    seen = msgspec.structs.replace(alert, checked_at=now, judged_at=now, pauses=reading.pauses)
    if reading.excused:
        counts_from = alert.counts_from if alert.open else now
        return msgspec.structs.replace(seen, counts_from=counts_from, wrong_since=None), None
    if value is None:
        return seen, None
    wrong = value < rule.threshold if rule.falls else value > rule.threshold
    good = value >= rule.good if rule.falls else value <= rule.good
    since = (alert.wrong_since or now) if wrong else None
    seen = msgspec.structs.replace(seen, value=value, wrong_since=since)
    if not alert.open and since is not None and now - since >= timedelta(seconds=rule.for_seconds):
        return msgspec.structs.replace(seen, open=True, changed_at=now, version=alert.version + 1), "opened"
    if alert.open and good:
        return msgspec.structs.replace(seen, open=False, changed_at=now, version=alert.version + 1), "closed"
    return seen, None


def make_rule(rule: AlertRule) -> AlertRule:
    """Validate a rule before it is stored."""
    check_name(rule.name, "name")
    for field in ("queue", "task", "tag"):
        if (named := getattr(rule, field)) is not None:
            check_name(named, field)
    subjects = [field for field in ("job", "task", "tag") if getattr(rule, field) is not None]
    if subjects and rule.figure not in OF_SUBJECTS:
        raise InvalidInput(
            f"`{subjects[0]}` cannot be used with {rule.figure}, which measures a queue",
            field=subjects[0],
            remedy=f"use one of {', '.join(OF_SUBJECTS)}",
        )
    if len(subjects) > 1:
        raise InvalidInput("only one of job, task and tag may be given", field=subjects[1], remedy="use two rules")
    if rule.figure is Figure.NO_SUCCESS and rule.threshold < _SOONEST:
        raise InvalidInput("must be at least 10 seconds", field="threshold")
    if rule.figure is Figure.OVERTIME and rule.threshold < 1:
        raise InvalidInput("must be at least 1, which is the usual duration", field="threshold")
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
