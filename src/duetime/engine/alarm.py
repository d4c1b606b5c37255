"""The alarm evaluates alert rules and check-ins, and notifies when something goes wrong and when it recovers.

It runs on every node, and one node at a time evaluates a rule. A new state is stored first, with its message; its
notifications are stored next, under keys that name the state; then the state is marked as reported. A state that is not
marked is reported again before anything else is judged. So each incident is opened once and closed once, whatever
crashes in between, and however many nodes there are.

Nothing is judged while the clock may have stepped or no node ran (`clock_guard.py`).
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import TypeVar

import msgspec

from duetime.engine.alert_figures import Readings
from duetime.engine.clock_guard import ClockGuard
from duetime.engine.outbox import Outbox
from duetime.errors import StoreUnavailable
from duetime.model.alert import Alert, judge, resumed
from duetime.model.alert_messages import compose
from duetime.model.checkin import StoredCheckIn, compose_checkin, judge_checkin
from duetime.model.notification import Message
from duetime.model.tenant import TenantState
from duetime.store.protocol.service import ClockSeen
from duetime.store.protocol.store import Store

EVERY = timedelta(seconds=5)
LIMIT = 100
_MOST_FAILURES = 3
SERVED = timedelta(seconds=30)
"""After this long without a server, pings may have been lost."""


class Alarm:
    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        *,
        guard: ClockGuard | None = None,
        public_url: str | None = None,
        every: timedelta = EVERY,
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._guard = guard
        self._public_url = public_url
        self._every = every

    async def tick(self) -> float:
        if self._guard is not None and not await self._guard.may_judge_leases():
            return self._every.total_seconds() / 2
        alerts = await self._store.notifications.take_alerts(self._every, LIMIT)
        if alerts:
            seen = await self._store.clocks.clock_seen()
            readings = Readings(self._store, seen)
            await _check_each(alerts, lambda alert: self._check(alert, readings, seen))
        return 0.0 if len(alerts) == LIMIT else self._every.total_seconds() / 2

    async def _check(self, alert: Alert, readings: Readings, seen: ClockSeen) -> None:
        if alert.told != alert.version and not await self._notify(alert):
            return
        alert = resumed(alert, seen.now, seen.stepped_at)
        reading = await readings.of(alert)
        after, turn = judge(alert, reading, seen.now)
        if turn is not None:
            after = msgspec.structs.replace(after, message=compose(after, turn, reading, self._public_url))
        kept = await self._store.notifications.keep_alert(after, alert.version)
        if kept and turn is not None:
            await self._notify(after)

    async def _notify(self, alert: Alert) -> bool:
        """Store the notifications of the newest version. Returns false if that failed for some: call it again later."""
        rule, message = alert.rule, alert.message
        stored_all = True
        if message is not None:
            about = f"{rule.name}/{alert.version}/{message.at.isoformat()}"
            notifications = [
                self._outbox.write(alert.tenant_id, subscription, message, about)
                for _, subscription in await self._store.notifications.subscriptions(alert.tenant_id)
                if subscription.wants(message.topic) and rule.is_for(subscription)
            ]
            stored_all = await self._outbox.send(alert.tenant_id, notifications)
        if stored_all:
            await self._store.notifications.mark_alert_notified(alert)
        return stored_all


class CheckInAlarm:
    """The same for check-ins."""

    def __init__(
        self,
        store: Store,
        outbox: Outbox,
        *,
        guard: ClockGuard | None = None,
        public_url: str | None = None,
        interval: timedelta = timedelta(seconds=2),
        held: timedelta = timedelta(seconds=30),
    ) -> None:
        self._store = store
        self._outbox = outbox
        self._guard = guard
        self._public_url = public_url
        self._interval = interval.total_seconds()
        self._held = held

    async def tick(self) -> float:
        if self._guard is not None and not await self._guard.may_judge_leases():
            return self._interval
        # Read before the check-ins: a ping that is stored after them is not older than the judgement.
        seen = await self._store.clocks.clock_seen()
        if seen.served_since is None or seen.served_at is None or not _is_near(seen.served_at, seen.now):
            return self._interval  # pings cannot arrive: nothing is late
        found = await self._store.checkins.take_checkins(self._held, LIMIT)
        served_since = max(seen.served_since, seen.stepped_at or seen.served_since)
        await _check_each(found, lambda stored: self._check(stored, seen.now, served_since))
        return 0.0 if len(found) == LIMIT else self._interval

    async def _check(self, stored: StoredCheckIn, now: datetime, served_since: datetime) -> None:
        if stored.told != stored.version and not await self._notify(stored.tenant_id, stored, stored.message):
            return
        tenant = await self._store.tenants.tenant_by_id(stored.tenant_id)
        suspended = tenant.state is not TenantState.ACTIVE
        after, turn = judge_checkin(stored, now, served_since, suspended=suspended)
        if turn is not None:
            message = compose_checkin(after, turn, stored, self._public_url)
            after = msgspec.structs.replace(after, message=message)
        # It stays due until its notifications are stored: the next node that finds it stores them.
        due = after if turn is None else msgspec.structs.replace(after, judge_at=now + self._held)
        kept = await self._store.checkins.keep_checkin(due, stored.version)
        if kept and turn is not None:
            await self._notify(stored.tenant_id, after, after.message)

    async def _notify(self, tenant_id: int, stored: StoredCheckIn, message: Message | None) -> bool:
        stored_all = True
        if message is not None:
            about = f"checkin/{stored.check.name}/{stored.version}/{message.at.isoformat()}"
            notifications = [
                self._outbox.write(tenant_id, subscription, message, about)
                for _, subscription in await self._store.notifications.subscriptions(tenant_id)
                if subscription.wants(message.topic)
            ]
            stored_all = await self._outbox.send(tenant_id, notifications)
        if stored_all:
            await self._store.checkins.mark_checkin_notified(stored)
        return stored_all


_T = TypeVar("_T")


async def _check_each(items: Iterable[_T], check: Callable[[_T], Awaitable[None]]) -> None:
    """A check that cannot be read does not keep the others from being judged, unless the database is away."""
    failures: list[StoreUnavailable] = []
    for item in items:
        try:
            await check(item)
        except StoreUnavailable as error:
            failures.append(error)
            if len(failures) == _MOST_FAILURES:
                break
    if failures:
        raise failures[0]


def _is_near(served_at: datetime, now: datetime) -> bool:
    return abs(now - served_at) <= SERVED
