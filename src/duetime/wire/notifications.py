"""Requests and answers about subscriptions and alerts."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.model.notification import EVERYTHING, Topic
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
    topics: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema={"enum": [EVERYTHING, *Topic]})], ...],
        Meta(min_length=1, max_length=50, description="What to send: `*` means all topics."),
    ]
    queues: Annotated[Names, Meta(description="Only runs in these queues.")] = ()
    tags: Annotated[Names, Meta(description="Only jobs with one of these tags.")] = ()
    job_ids: Annotated[Names, Meta(description="Only these jobs.")] = ()
    late_after: Annotated[
        float, Meta(ge=0, le=86_400, description="Seconds after the due time from which a start counts as late.")
    ] = 60.0
    paused: Annotated[bool, Meta(description="Send nothing for now.")] = False


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


class TestSent(Struct, frozen=True):
    """The delivery of a test."""

    job_id: str
    run_id: str | None
    """Its state says whether the test has arrived."""


class AlertRequest(Request, frozen=True):
    """A rule: which figure, and at which values the alert starts and ends."""

    figure: FigureName
    threshold: Annotated[
        float,
        Meta(ge=0, le=1e12, description="The alert starts above this value (for workers and free slots: below it)."),
    ]
    until: (
        Annotated[
            float,
            Meta(
                ge=0,
                le=1e12,
                description="The value at which the alert ends; by default a tenth on the good side of the threshold.",
            ),
        ]
        | None
    ) = None
    for_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400,
            description="How long the threshold must be crossed without a break before the alert starts.",
        ),
    ] = 0.0
    queue: Annotated[str, Meta(description="Only this queue.")] | None = None
    job_id: (
        Annotated[
            str,
            Meta(description="Only this job: for `no_success`, `not_started` and `overtime`, as are `task` and `tag`."),
        ]
        | None
    ) = None
    task: Annotated[str, Meta(description="Only jobs of this task.")] | None = None
    tag: Annotated[str, Meta(description="Only jobs with this tag.")] | None = None
    paused: Annotated[bool, Meta(description="Report nothing for now.")] = False


class AlertView(Struct, frozen=True):
    name: str
    figure: FigureName
    threshold: float
    until: float | None
    """As it was given."""
    closes_at: float
    """The value at which it closes."""
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
    unit: str = ""
    """What the value and the thresholds count, in words."""


class AlertList(Struct, frozen=True):
    items: tuple[AlertView, ...]
