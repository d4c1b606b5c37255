"""Subscriptions and alerts as requests and answers have them."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from duetime.spec.fields import Request

Names = Annotated[tuple[str, ...], Meta(max_length=100)]
Address = Annotated[str, Meta(min_length=1, max_length=2000)]
FigureName = Literal["dead_letters", "lag_p95", "backlog", "workers", "free_slots", "duration", "unserved"]


class WebhookTo(Request, frozen=True, tag_field="type", tag="webhook"):
    """A signed POST, as Standard Webhooks has it."""

    url: Address


class SlackTo(Request, frozen=True, tag_field="type", tag="slack"):
    """A POST of `{"text": …}`, which Slack and many others understand."""

    url: Address


class EmailTo(Request, frozen=True, tag_field="type", tag="email"):
    """A mail, through the operator's SMTP server."""

    address: Annotated[str, Meta(min_length=3, max_length=320)]


To = WebhookTo | SlackTo | EmailTo


class SubscriptionRequest(Request, frozen=True):
    """What is to be told, and where to. Of queues, tags and job ids, none means all; all that is given must hold."""

    to: To
    topics: Annotated[tuple[str, ...], Meta(min_length=1, max_length=50)]
    """`*` stands for all."""
    queues: Names = ()
    tags: Names = ()
    job_ids: Names = ()
    late_after: Annotated[float, Meta(ge=0, le=86_400)] = 60.0
    """Seconds after its time from which the start of a run is late."""
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
    """A rule: which figure, and where it is wrong and right again."""

    figure: FigureName
    threshold: Annotated[float, Meta(ge=0, le=1e12)]
    """Over it (for workers and free slots: under it) is wrong."""
    until: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    """Where it is right again; by default a tenth on the good side of the threshold."""
    for_seconds: Annotated[float, Meta(ge=0, le=86_400)] = 0.0
    """How long it must be wrong without a break before the alert opens."""
    queue: str | None = None


class AlertView(Struct, frozen=True):
    name: str
    figure: FigureName
    threshold: float
    until: float
    for_seconds: float
    queue: str | None
    topic: str
    """What subscriptions know it by."""
    open: bool
    value: float | None
    """As it was last seen."""
    changed_at: datetime | None
    checked_at: datetime | None


class AlertList(Struct, frozen=True):
    items: tuple[AlertView, ...]
