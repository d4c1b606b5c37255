"""The alarm evaluates alert rules and notifies when a figure crosses its threshold and when it recovers.

It runs on every node, and one node at a time evaluates an alert. Notifications are stored before the alert's new state,
under keys that name the state change. A crash in between therefore sends each notification once.
"""

from datetime import timedelta

from duetime.engine.alert_figures import Readings
from duetime.engine.outbox import Outbox
from duetime.model.alert import TOPICS, Alert, Turn, judge, sentence
from duetime.model.notification import Message
from duetime.store.protocol.store import Store

EVERY = timedelta(seconds=5)


class Alarm:
    def __init__(self, store: Store, outbox: Outbox, *, every: timedelta = EVERY) -> None:
        self._store = store
        self._outbox = outbox
        self._every = every

    async def tick(self) -> float:
        alerts = await self._store.notifications.take_alerts(self._every)
        if alerts:
            readings = Readings(self._store)
            now = await self._store.now()
            for alert in alerts:
                value = await readings.of(alert)
                after, turn = judge(alert, value, now)
                if turn is None or await self._notify(after, turn):
                    await self._store.notifications.keep_alert(after, alert.version)
        return self._every.total_seconds() / 2

    async def _notify(self, alert: Alert, turn: Turn) -> bool:
        rule = alert.rule
        assert alert.changed_at is not None
        data = {
            "alert": rule.name,
            "turn": turn,
            "figure": rule.figure,
            "queue": rule.queue,
            "value": alert.value,
            "threshold": rule.threshold,
        }
        message = Message(TOPICS[rule.figure], alert.changed_at, sentence(alert, turn), data)
        notifications = [
            self._outbox.write(alert.tenant_id, subscription, message, f"{rule.name}/{alert.version}")
            for _, subscription in await self._store.notifications.subscriptions(alert.tenant_id)
            if subscription.wants(message.topic)
            and (not subscription.queues or rule.queue is None or rule.queue in subscription.queues)
        ]
        return await self._outbox.send(alert.tenant_id, notifications)
