"""Notifications: which events a tenant subscribes to, where they are sent, and their texts.

A subscription names topics and a destination. Each notification is sent by its own job, in a separate queue: so it is
retried, becomes a dead letter when the destination does not answer, and never causes another notification.

The address of a destination is a credential: it is enough to post there. It is encrypted where it is stored, in
subscriptions and in the arguments of notifications, and is shown to roles that may change it.
"""

from datetime import datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import msgspec

from duetime.errors import InvalidInput
from duetime.model.event import EventKind
from duetime.model.failure import FailureClass
from duetime.model.job import Options
from duetime.model.name import check_name
from duetime.model.target import is_target

QUEUE = "duetime.notifications"
"""The queue of notifications. Runs in this queue cause no notifications."""
EVERYTHING = "*"


class Topic(StrEnum):
    """The topics. The texts are part of the contract."""

    RUN_SUCCEEDED = "run.succeeded"
    RUN_FAILED = "run.failed"
    """An attempt failed; the run may be retried."""
    RUN_DEAD = "run.dead"
    """A run used up its attempts."""
    RUN_LATE = "run.late"
    """A run started later than the subscription's `late_after`."""
    RUN_SLOW = "run.slow"
    """A run takes longer than its `warn_after`."""
    JOB_MISSED = "job.missed"
    """An occurrence was not run because it was too late, by the job's misfire policy."""
    BREAKER_OPENED = "breaker.opened"
    QUEUE_BACKLOG = "queue.backlog"
    QUEUE_LATE = "queue.late"
    WORKERS_LOW = "workers.low"
    WORKERS_NONE = "workers.none"
    DEAD_LETTERS = "dead_letters.many"
    RUNS_SLOW = "runs.slow"
    JOB_SILENT = "job.silent"
    JOB_NOT_STARTED = "job.not_started"
    JOB_OVERTIME = "job.overtime"
    CHECKIN_LATE = "checkin.late"
    CHECKIN_FAILED = "checkin.failed"
    TEST = "test"
    """Sent to one subscription on request."""


OF_ENDS = (EventKind.SUCCEEDED, EventKind.RETRYING, EventKind.FAILED, EventKind.SKIPPED)
"""The events about the end of an attempt."""
OF_EVENTS: dict[EventKind, tuple[Topic, ...]] = {
    EventKind.SUCCEEDED: (Topic.RUN_SUCCEEDED,),
    EventKind.RETRYING: (Topic.RUN_FAILED,),
    EventKind.FAILED: (Topic.RUN_FAILED, Topic.RUN_DEAD),
    EventKind.STARTED: (Topic.RUN_LATE,),
    EventKind.SKIPPED: (Topic.JOB_MISSED,),
    EventKind.SLOW: (Topic.RUN_SLOW,),
}
"""The topics that an event may belong to."""

UNREADABLE = "unreadable://"
"""Stands for an address that is encrypted with a key that this process does not have."""


class Webhook(msgspec.Struct, frozen=True, tag_field="type", tag="webhook", forbid_unknown_fields=True):
    """A signed POST, as defined by Standard Webhooks."""

    url: str


class Slack(msgspec.Struct, frozen=True, tag_field="type", tag="slack", forbid_unknown_fields=True):
    """A POST of `{"text": …}`, which Slack and many others accept."""

    url: str


class Email(msgspec.Struct, frozen=True, tag_field="type", tag="email", forbid_unknown_fields=True):
    """An email, through the operator's SMTP server."""

    address: str


Recipient = Webhook | Slack | Email


def address_of(to: Recipient) -> str:
    return to.address if isinstance(to, Email) else to.url


def with_address(to: Recipient, address: str) -> Recipient:
    return Email(address) if isinstance(to, Email) else type(to)(address)


def shortened(url: str) -> str:
    """A URL for roles that may not use it: without its path and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}/…"


def is_notification(task: str, queue: str) -> bool:
    """Whether a job sends a notification."""
    return queue == QUEUE and is_target(task)


def shown_arguments(task: str, queue: str, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a job without the address of a notification, which its subscription shows."""
    url = args.get("url") if is_notification(task, queue) else None
    return {**args, "url": shortened(url)} if isinstance(url, str) else args


class Subscription(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a tenant is notified of. No queues, tags or jobs mean all; all given conditions must hold."""

    name: str
    to: Recipient
    topics: tuple[str, ...]
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    jobs: tuple[UUID, ...] = ()
    late_after: float = 60.0
    """Seconds after the due time from which a start counts as late."""
    paused: bool = False

    def wants(self, topic: Topic) -> bool:
        return self.is_readable and not self.paused and (topic in self.topics or EVERYTHING in self.topics)

    @property
    def is_readable(self) -> bool:
        """Whether this process can tell where it sends to."""
        return address_of(self.to) != UNREADABLE

    def covers(self, run: "RunNews") -> bool:
        """Whether it covers this run."""
        return (
            (not self.queues or run.queue in self.queues)
            and (not self.jobs or run.job_id in self.jobs)
            and (not self.tags or not set(self.tags).isdisjoint(run.options.tags))
        )


class RunNews(msgspec.Struct, frozen=True):
    """A run as notifications describe it: no arguments, no result."""

    id: UUID
    job_id: UUID
    task: str
    queue: str
    attempt: int
    due_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    failure: FailureClass | None
    error: str | None
    """Its beginning."""
    options: Options
    first_started_at: datetime | None = None
    """When the run started for the first time; `started_at` is the start of the attempt."""


class Message(msgspec.Struct, frozen=True):
    """One notification."""

    topic: Topic
    at: datetime
    text: str
    """One sentence, for people."""
    data: dict[str, Any]
    """The same for programs."""


def make_subscription(subscription: Subscription) -> Subscription:
    """Validate a subscription before it is stored. The address guard checks its destination elsewhere."""
    check_name(subscription.name, "name")
    if not subscription.topics:
        raise InvalidInput("at least one topic is required", field="topics", remedy=f"or {EVERYTHING!r} for all")
    known = {*Topic, EVERYTHING}
    for index, topic in enumerate(subscription.topics):
        if topic not in known:
            raise InvalidInput(
                f"{topic[:60]!r} is not a topic",
                field=f"topics[{index}]",
                remedy=f"one of {', '.join(sorted(known))}",
            )
    for index, queue in enumerate(subscription.queues):
        check_name(queue, f"queues[{index}]")
    for index, tag in enumerate(subscription.tags):
        check_name(tag, f"tags[{index}]")
    if not 0 <= subscription.late_after <= 86_400:
        raise InvalidInput("must be from 0 to 86,400 seconds", field="late_after")
    if isinstance(subscription.to, Email):
        check_mail_address(subscription.to.address, "to.address")
    return subscription


def check_mail_address(address: str, field: str) -> str:
    """Enough to keep other headers out, and to catch typing errors; only the mail server knows whether it exists."""
    name, _, host = address.rpartition("@")
    printable = address.isascii() and address.isprintable() and not set(address) & set(' ,;:<>()[]"\\')
    if not (name and host and printable and "." in host.strip(".")):
        raise InvalidInput(f"{address[:60]!r} is not an email address", field=field, remedy="write name@example.com")
    return address


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Subscription)


def encode_subscription(subscription: Subscription) -> bytes:
    return _encoder.encode(subscription)


def decode_subscription(body: bytes) -> Subscription:
    return _decoder.decode(body)
