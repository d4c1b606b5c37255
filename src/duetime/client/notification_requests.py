"""What is asked about subscriptions and alerts."""

from collections.abc import Mapping, Sequence
from typing import Any

from duetime.client.request import Ask, path
from duetime.wire.jobs import Deleted
from duetime.wire.notifications import AlertList, AlertView, FigureName, SubscriptionList, SubscriptionView


def list_subscriptions() -> Ask[SubscriptionList]:
    """What is told to whom."""
    return Ask("GET", "/v1/subscriptions", SubscriptionList)


def put_subscription(
    subscription: str,
    to: Mapping[str, str],
    topics: Sequence[str],
    *,
    queues: Sequence[str] = (),
    tags: Sequence[str] = (),
    job_ids: Sequence[str] = (),
    late_after: float = 60.0,
    paused: bool = False,
) -> Ask[SubscriptionView]:
    """Set what is told under a name. `to` is `{"type": "webhook", "url": …}`, `{"type": "slack", "url": …}` or
    `{"type": "email", "address": …}`."""
    body: dict[str, Any] = {
        "to": dict(to),
        "topics": list(topics),
        "queues": list(queues),
        "tags": list(tags),
        "job_ids": list(job_ids),
        "late_after": late_after,
        "paused": paused,
    }
    return Ask("PUT", path("/v1/subscriptions/{}", subscription), SubscriptionView, body=body)


def delete_subscription(subscription: str) -> Ask[Deleted]:
    """Tell it no more."""
    return Ask("DELETE", path("/v1/subscriptions/{}", subscription), Deleted, repeatable=False)


def list_alerts() -> Ask[AlertList]:
    """The alert rules, and how they stand."""
    return Ask("GET", "/v1/alerts", AlertList)


def put_alert(
    alert: str,
    figure: FigureName,
    threshold: float,
    *,
    until: float | None = None,
    for_seconds: float = 0.0,
    queue: str | None = None,
) -> Ask[AlertView]:
    """Set an alert rule."""
    body = {
        "figure": figure,
        "threshold": threshold,
        "until": until,
        "for_seconds": for_seconds,
        "queue": queue,
    }
    return Ask("PUT", path("/v1/alerts/{}", alert), AlertView, body=body)


def delete_alert(alert: str) -> Ask[Deleted]:
    """Remove an alert rule."""
    return Ask("DELETE", path("/v1/alerts/{}", alert), Deleted, repeatable=False)
