"""Requests and answers about subscriptions and alerts."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Request

Names = Annotated[tuple[str, ...], Meta(max_length=100)]
Address = Annotated[str, Meta(min_length=1, max_length=2000)]
FigureName = Literal[
    "dead_letters",
    "lag_p95",
    "backlog",
    "workers",
    "free_slots",
    "duration",
    "unserved",
    "no_success",
    "not_started",
    "overtime",
]


class WebhookTo(Request, frozen=True, tag_field="type", tag="webhook"):
    """A signed POST, as defined by Standard Webhooks."""

    url: Address


class SlackTo(Request, frozen=True, tag_field="type", tag="slack"):
    """A POST of `{"text": …}`, which Slack and many others accept."""

    url: Address


class EmailTo(Request, frozen=True, tag_field="type", tag="email"):
    """An email, through the operator's SMTP server."""

    address: Annotated[str, Meta(min_length=3, max_length=320)]


To = WebhookTo | SlackTo | EmailTo


class SubscriptionRequest(Request, frozen=True):
    """Which events to send, and where. No queues, tags or job ids mean all; all given conditions must hold."""

    to: To
    topics: Annotated[tuple[str, ...], Meta(min_length=1, max_length=50)]
    """`*` means all."""
    queues: Names = ()
    tags: Names = ()
    job_ids: Names = ()
    late_after: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Seconds after the due time from which a start counts as late."""
    paused: bool = False


class SubscriptionView(Struct, frozen=True):
    name: str
    to: To
    topics: tuple[str, ...]
    queues: tuple[str, ...]
    tags: tuple[str, ...]
    job_ids: tuple[str, ...]
    late_after: float
    paused: bool


class SubscriptionList(Struct, frozen=True):
    items: tuple[SubscriptionView, ...]


class AlertRequest(Request, frozen=True):
    """A rule: which figure, and at which values the alert starts and ends."""

    figure: FigureName
    threshold: Annotated[float, Meta(ge=0, le=1e12)]
    """The alert starts above this value (for workers and free slots: below it)."""
    until: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    """The value at which the alert ends; by default a tenth on the good side of the threshold."""
    for_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """How long the threshold must be crossed without a break before the alert starts."""
    queue: str | None = None
    job_id: str | None = None
    """Only this job: for `no_success`, `not_started` and `overtime`, as are `task` and `tag`."""
    task: str | None = None
    tag: str | None = None
    paused: bool = False
    """Report nothing for now."""


class AlertView(Struct, frozen=True):
    name: str
    figure: FigureName
    threshold: float
    until: float
    for_seconds: float
    queue: str | None
    job_id: str | None
    task: str | None
    tag: str | None
    paused: bool
    topic: str
    """The topic for subscriptions."""
    open: bool
    value: float | None
    """The last value that was read."""
    text: str | None
    """What it reported when it last opened or closed."""
    last_success_at: datetime | None
    """Of `no_success`: the last success since the rule exists."""
    changed_at: datetime | None
    checked_at: datetime | None


class AlertList(Struct, frozen=True):
    items: tuple[AlertView, ...]
