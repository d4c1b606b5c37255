"""Requests for subscriptions and alert rules."""

from collections.abc import Mapping, Sequence
from typing import Any

from duetime.client.request import Request, once, path
from duetime.wire.jobs import Deleted
from duetime.wire.notifications import AlertList, AlertView, FigureName, SubscriptionList, SubscriptionView, TestSent


def list_subscriptions() -> Request[SubscriptionList]:
    """The subscriptions."""
    return Request("GET", "/v1/subscriptions", SubscriptionList)


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
) -> Request[SubscriptionView]:
    """Create or replace a subscription. `to` is `{"type": "webhook", "url": …}`, `{"type": "slack", "url": …}` or
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
    return Request("PUT", path("/v1/subscriptions/{}", subscription), SubscriptionView, body=body)


def delete_subscription(subscription: str) -> Request[Deleted]:
    """Delete a subscription."""
    return Request("DELETE", path("/v1/subscriptions/{}", subscription), Deleted, repeatable=False)


def test_subscription(subscription: str, *, idempotency_key: str | None = None) -> Request[TestSent]:
    """Send a test to the destination of a subscription."""
    target = path("/v1/subscriptions/{}/test", subscription)
    return Request("POST", target, TestSent, headers=once(idempotency_key))


def list_alerts() -> Request[AlertList]:
    """The alert rules and their states."""
    return Request("GET", "/v1/alerts", AlertList)


def put_alert(
    alert: str,
    figure: FigureName,
    threshold: float,
    *,
    until: float | None = None,
    for_seconds: float = 0.0,
    queue: str | None = None,
    job_id: str | None = None,
    task: str | None = None,
    tag: str | None = None,
    paused: bool = False,
) -> Request[AlertView]:
    """Create or replace an alert rule. `job_id`, `task` or `tag`: for `no_success`, `not_started` and `overtime`."""
    body = {
        "figure": figure,
        "threshold": threshold,
        "until": until,
        "for_seconds": for_seconds,
        "queue": queue,
        "job_id": job_id,
        "task": task,
        "tag": tag,
        "paused": paused,
    }
    return Request("PUT", path("/v1/alerts/{}", alert), AlertView, body=body)


def delete_alert(alert: str) -> Request[Deleted]:
    """Delete an alert rule."""
    return Request("DELETE", path("/v1/alerts/{}", alert), Deleted, repeatable=False)
