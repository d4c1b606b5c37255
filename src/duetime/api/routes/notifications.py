"""Notification subscriptions and alert rules."""

from typing import Any
from uuid import UUID

import msgspec

from duetime.api.call import Call
from duetime.api.endpoint import Routes
from duetime.engine.outbox import Outbox
from duetime.errors import InvalidInput, KeyUnknown, NotFound
from duetime.ids import new_id, parse, show
from duetime.model.access import Action, may
from duetime.model.alert import TOPICS, Alert, AlertRule, Figure, make_rule
from duetime.model.alert_messages import UNITS
from duetime.model.notification import (
    Email,
    Message,
    Recipient,
    Slack,
    Subscription,
    Topic,
    Webhook,
    make_subscription,
    shortened,
)
from duetime.model.structs import struct_like
from duetime.targets.email import check_can_send
from duetime.targets.url import check_url
from duetime.wire.jobs import Deleted
from duetime.wire.notifications import (
    AlertList,
    AlertRequest,
    AlertView,
    EmailTo,
    SlackTo,
    SubscriptionList,
    SubscriptionRequest,
    SubscriptionView,
    TestSent,
    To,
    WebhookTo,
)

routes = Routes("Notifications")


@routes.get("/v1/subscriptions", Action.READ, answer=SubscriptionList)
async def list_subscriptions(call: Call) -> SubscriptionList:
    """List the subscriptions. Only roles that may change them see the whole addresses of webhooks."""
    found = await call.service.store.notifications.subscriptions(call.tenant_id)
    assert call.who.role is not None  # authenticated
    whole = may(call.who.role, Action.CONTROL)
    return SubscriptionList(tuple(_view(each, whole=whole) for _, each in found))


@routes.put("/v1/subscriptions/{subscription}", Action.CONTROL, body=SubscriptionRequest, answer=SubscriptionView)
async def put_subscription(call: Call) -> SubscriptionView:
    """Create or replace a subscription. It applies to events from now on."""
    request: SubscriptionRequest = call.body
    if not isinstance(request.to, EmailTo):
        check_url(request.to.url, call.service.targets.guard, "to.url")
    wanted = make_subscription(
        struct_like(
            Subscription,
            request,
            name=call.path["subscription"],
            to=_recipient(request.to),
            jobs=tuple(_job_id(text, f"job_ids[{index}]") for index, text in enumerate(request.job_ids)),
        )
    )
    if isinstance(wanted.to, Email) and not wanted.paused:
        check_can_send(call.service.settings)
    await call.service.store.notifications.put_subscription(call.tenant_id, wanted)
    await call.act("subscriptions.set", wanted.name, ", ".join(wanted.topics)[:200])
    return _view(wanted)


@routes.delete("/v1/subscriptions/{subscription}", Action.CONTROL, answer=Deleted)
async def delete_subscription(call: Call) -> Deleted:
    """Delete a subscription. Notifications that are being sent still arrive."""
    name = call.path["subscription"]
    await call.service.store.notifications.delete_subscription(call.tenant_id, name)
    await call.act("subscriptions.delete", name)
    return Deleted()


@routes.action("/v1/subscriptions/{subscription}/test", Action.CONTROL, answer=TestSent, status=202)
async def test_subscription(call: Call) -> TestSent:
    """Send a test to the destination of a subscription, also of a paused one."""
    name, store = call.path["subscription"], call.service.store
    found = [each for _, each in await store.notifications.subscriptions(call.tenant_id) if each.name == name]
    if not found:
        raise NotFound(f"there is no subscription {name!r}")
    if not found[0].is_readable:
        raise KeyUnknown(
            "the address of the subscription is encrypted with a key that this server does not have",
            remedy="add the key to encryption_keys (DUETIME_ENCRYPTION_KEYS), or set the subscription again",
        )
    at, about = await store.now(), new_id().hex
    message = Message(Topic.TEST, at, f"A test of the subscription {name}", {"subscription": name})
    answer = await call.intake.submit(
        call.tenant_id, Outbox(store).write(call.tenant_id, found[0], message, f"test/{about}")
    )
    await call.act("subscriptions.test", name)
    return TestSent(show("job", answer.job_id), None if answer.run_id is None else show("run", answer.run_id))


@routes.get("/v1/alerts", Action.READ, answer=AlertList)
async def list_alerts(call: Call) -> AlertList:
    """List the alert rules and their states."""
    return AlertList(tuple(_alert(each) for each in await call.service.store.notifications.alerts(call.tenant_id)))


@routes.put("/v1/alerts/{alert}", Action.CONTROL, body=AlertRequest, answer=AlertView)
async def put_alert(call: Call) -> AlertView:
    """Create or replace an alert rule."""
    request: AlertRequest = call.body
    given: dict[str, Any] = msgspec.structs.asdict(request)
    job_id = given.pop("job_id")
    job = None if job_id is None else _job_id(job_id, "job_id")
    rule = make_rule(AlertRule(call.path["alert"], **{**given, "figure": Figure(request.figure), "job": job}))
    if job is not None:
        await call.service.store.reads.job(call.tenant_id, job)
    alert = await call.service.store.notifications.put_alert(call.tenant_id, rule)
    await call.act("alerts.set", rule.name, f"{rule.figure} {rule.threshold:g}")
    return _alert(alert)


@routes.delete("/v1/alerts/{alert}", Action.CONTROL, answer=Deleted)
async def delete_alert(call: Call) -> Deleted:
    """Delete an alert rule."""
    name = call.path["alert"]
    await call.service.store.notifications.delete_alert(call.tenant_id, name)
    await call.act("alerts.delete", name)
    return Deleted()


def _job_id(text: str, field: str) -> UUID:
    try:
        return parse("job", text)
    except InvalidInput as error:
        raise InvalidInput(error.message, field=field, remedy=error.remedy) from None


def _recipient(to: To) -> Recipient:
    match to:
        case WebhookTo(url):
            return Webhook(url)
        case SlackTo(url):
            return Slack(url)
        case EmailTo(address):
            return Email(address)


def _view(subscription: Subscription, *, whole: bool = True) -> SubscriptionView:
    match subscription.to:
        case Webhook(url):
            to: To = WebhookTo(url if whole else shortened(url))
        case Slack(url):
            to = SlackTo(url if whole else shortened(url))
        case Email(address):
            to = EmailTo(address)
    job_ids = tuple(show("job", each) for each in subscription.jobs)
    return struct_like(SubscriptionView, subscription, to=to, job_ids=job_ids)


def _alert(alert: Alert) -> AlertView:
    rule = alert.rule
    return struct_like(
        AlertView,
        rule,
        figure=rule.figure.value,
        job_id=None if rule.job is None else show("job", rule.job),
        closes_at=rule.good,
        topic=TOPICS[rule.figure],
        unit=UNITS[rule.figure],
        open=alert.open,
        value=alert.value,
        text=None if alert.message is None else alert.message.text,
        last_success_at=alert.good_at,
        changed_at=alert.changed_at,
        checked_at=alert.checked_at if alert.value is not None else None,
    )
