"""Subscriptions, and the position up to which notifications were sent."""

from datetime import timedelta
from uuid import uuid4

import pytest

from duetime.engine.intake import prepare
from duetime.errors import NotFound
from duetime.ids import new_id
from duetime.model.alert import AlertRule, Figure, Reading, judge
from duetime.model.event import EventKind
from duetime.model.job import DEFAULT_TENANT, Options
from duetime.model.notification import Subscription, Topic, Webhook
from duetime.store.protocol.store import Store

SHORT = timedelta(seconds=5)


def hook(name: str = "ops", **given: object) -> Subscription:
    return Subscription(name, Webhook("https://example.com/hook"), (Topic.RUN_DEAD,), **given)  # type: ignore[arg-type]


async def test_subscriptions_are_set_listed_and_deleted(store: Store) -> None:
    await store.notifications.put_subscription(DEFAULT_TENANT, hook("b"))
    await store.notifications.put_subscription(DEFAULT_TENANT, hook("a", queues=("mail",)))
    await store.notifications.put_subscription(DEFAULT_TENANT, hook("b", paused=True))
    found = await store.notifications.subscriptions(DEFAULT_TENANT)
    assert found == [(DEFAULT_TENANT, hook("a", queues=("mail",))), (DEFAULT_TENANT, hook("b", paused=True))]
    assert await store.notifications.subscriptions() == found
    assert await store.notifications.subscriptions(DEFAULT_TENANT + 1) == []
    with pytest.raises(NotFound):
        await store.notifications.delete_subscription(DEFAULT_TENANT + 1, "a")
    await store.notifications.delete_subscription(DEFAULT_TENANT, "a")
    assert await store.notifications.subscriptions() == found[1:]


async def test_nobody_is_told_anything_until_somebody_wants_to_know(store: Store) -> None:
    node = uuid4()
    assert await store.notifications.take_notifying(node, SHORT) is None
    await store.notifications.put_subscription(DEFAULT_TENANT, hook())
    mark = await store.notifications.take_notifying(node, SHORT)
    assert mark is not None
    await store.intake.submit(DEFAULT_TENANT, [prepare(task="t", args={}, max_payload=100)])
    (event,) = await store.events.events(mark)
    assert event.kind is EventKind.SUBMITTED
    await store.notifications.notified(event.mark)
    assert await store.notifications.take_notifying(node, SHORT) == event.mark
    await store.notifications.notified(mark)  # never back
    assert await store.notifications.take_notifying(node, SHORT) == event.mark
    await store.notifications.delete_subscription(DEFAULT_TENANT, "ops")
    assert await store.notifications.take_notifying(node, SHORT) is None


async def test_one_node_is_at_it_and_another_takes_over(store: Store) -> None:
    await store.notifications.put_subscription(DEFAULT_TENANT, hook())
    one, other = uuid4(), uuid4()
    mark = await store.notifications.take_notifying(one, timedelta(0))
    assert mark is not None
    assert await store.notifications.take_notifying(other, timedelta(minutes=1)) == mark
    assert await store.notifications.take_notifying(one, SHORT) is None
    assert await store.notifications.take_notifying(other, SHORT) == mark


async def test_news_of_runs_from_any_home(store: Store) -> None:
    options = Options(name="report", tags=("nightly",))
    jobs = [prepare(task="t", args={"secret": 1}, max_payload=100, queue="mail", options=options) for _ in range(2)]
    run_ids = [answer.run_id for answer in await store.intake.submit(DEFAULT_TENANT, jobs)]
    assert all(run_ids)
    await store.control.cancel_run(DEFAULT_TENANT, run_ids[0])  # type: ignore[arg-type]
    found = await store.notifications.news_of_runs(DEFAULT_TENANT, [*run_ids, new_id()])  # type: ignore[list-item]
    assert {news.id for news in found} == set(run_ids)
    assert {(news.task, news.queue, news.options.name) for news in found} == {("t", "mail", "report")}
    assert {news.id for news in found if news.finished_at is not None} == {run_ids[0]}
    assert await store.notifications.news_of_runs(DEFAULT_TENANT + 1, run_ids) == []  # type: ignore[arg-type]


async def test_alerts_are_looked_at_by_one_node_at_a_time(store: Store) -> None:
    rule = AlertRule("many", Figure.BACKLOG, 100)
    assert not (await store.notifications.put_alert(DEFAULT_TENANT, rule)).open
    (alert,) = await store.notifications.take_alerts(timedelta(minutes=1))
    assert alert.rule == rule
    assert await store.notifications.take_alerts(timedelta(minutes=1)) == []
    assert len(await store.notifications.take_alerts(timedelta(0))) == 1
    now = await store.now()
    opened, turn = judge(alert, Reading(200), now)
    assert turn == "opened"
    assert await store.notifications.keep_alert(opened, alert.version)
    assert not await store.notifications.keep_alert(opened, alert.version), "another node was quicker"
    (found,) = await store.notifications.alerts(DEFAULT_TENANT)
    assert (found.open, found.value, found.version) == (True, 200, 1)
    await store.notifications.put_alert(DEFAULT_TENANT, AlertRule("many", Figure.BACKLOG, 300))
    assert not await store.notifications.keep_alert(opened, 1), "the rule is another one"
    assert await store.notifications.alerts(DEFAULT_TENANT + 1) == []
    with pytest.raises(NotFound):
        await store.notifications.delete_alert(DEFAULT_TENANT, "few")
    await store.notifications.delete_alert(DEFAULT_TENANT, "many")
    assert await store.notifications.alerts(DEFAULT_TENANT) == []
