"""The notifier reads events and creates a job for each notification that a subscription wants.

It runs on every node. One node at a time does the work, and continues where the last one stopped. A notification has
the same key on every node, so one that was written twice is sent once. The position in the event log advances only
after the notifications are stored: a crash in between loses none.

It also tells the alert rules that wait for successes what succeeded.
"""

from collections import defaultdict
from datetime import datetime, timedelta
from uuid import UUID

from duetime.engine.outbox import Outbox
from duetime.ids import new_id
from duetime.model.breaker import Breaker, BreakerState
from duetime.model.event import Event, EventKind
from duetime.model.job import NewJob
from duetime.model.notification import OF_ENDS, OF_EVENTS, QUEUE, Message, Subscription, Topic
from duetime.model.run_messages import messages
from duetime.store.protocol.service import HearingRule
from duetime.store.protocol.store import Store

PAGE = 200
_HELD = timedelta(seconds=10)
_NOTED_EVERY = timedelta(seconds=1)
_ENOUGH = 10.0
"""Seconds, at most, until the next success is recorded for a rule: it needs no more precise time."""

Subscriptions = dict[int, list[Subscription]]
Hearing = dict[int, list[HearingRule]]


class Notifier:
    def __init__(self, store: Store, outbox: Outbox, *, interval: timedelta = timedelta(milliseconds=500)) -> None:
        self._store = store
        self._outbox = outbox
        self._interval = interval.total_seconds()
        self._id = new_id()
        self._noted_at: datetime | None = None

    async def tick(self) -> float:
        mark = await self._store.notifications.take_notifying(self._id, _HELD)
        if mark is None:
            return self._interval
        wants: Subscriptions = defaultdict(list)
        for tenant_id, subscription in await self._store.notifications.subscriptions():
            wants[tenant_id].append(subscription)
        hearing: Hearing = defaultdict(list)
        for each in await self._store.notifications.hearing_alerts():
            hearing[each.tenant_id].append(each)
        before = await self._store.now() if hearing else None
        page = await self._store.events.events(mark, PAGE)
        if not page:
            await self._read_until(before)
            return self._interval
        notifications: dict[int, list[NewJob]] = defaultdict(list)
        for event in page:
            notifications[event.tenant_id] += await self._notifications_for(event, wants.get(event.tenant_id, []))
            if event.kind is EventKind.SUCCEEDED and event.tenant_id in hearing:
                await self._hear(event, hearing[event.tenant_id])
        settled = [await self._outbox.send(tenant_id, jobs) for tenant_id, jobs in notifications.items()]
        if not all(settled):
            return self._interval
        await self._store.notifications.notified(page[-1].mark)
        if len(page) == PAGE:
            return 0.0
        await self._read_until(before)
        return self._interval

    async def _read_until(self, at: datetime | None) -> None:
        """All events until this moment were read, and what they say was stored."""
        if at is not None and (self._noted_at is None or abs(at - self._noted_at) >= _NOTED_EVERY):
            await self._store.notifications.events_read(at)
            self._noted_at = at

    async def _hear(self, event: Event, rules: list[HearingRule]) -> None:
        """Record for each rule that covers one of these runs that it succeeded. A rule that heard of a success a moment
        ago needs no other one."""
        waiting = [each for each in rules if _is_news(each, event.at)]
        if not waiting:
            return
        runs = await self._store.notifications.news_of_runs(event.tenant_id, event.ids, ended=event.at)
        for each in waiting:
            if any(run.queue != QUEUE and each.rule.covers(run) for run in runs):
                await self._store.notifications.heard_success(event.tenant_id, each.rule, event.at)
                rules[rules.index(each)] = each._replace(good_at=event.at)

    async def _notifications_for(self, event: Event, subscriptions: list[Subscription]) -> list[NewJob]:
        topics = OF_EVENTS.get(event.kind, ())
        interested = [each for each in subscriptions if any(each.wants(topic) for topic in topics)]
        if not interested:
            return []
        started = event.at if event.kind is EventKind.STARTED else None
        ended = event.at if event.kind in OF_ENDS else None
        written = []
        for run in await self._store.notifications.news_of_runs(
            event.tenant_id, event.ids, started=started, ended=ended
        ):
            for subscription in interested:
                for message in messages(event.kind, event.at, run, subscription):
                    about = f"{run.id.hex}/{run.attempt}"
                    written.append(self._outbox.write(event.tenant_id, subscription, message, about))
        return written


def _is_news(each: HearingRule, at: datetime) -> bool:
    if each.good_at is None or each.good_at > at:
        return True
    return at - each.good_at >= timedelta(seconds=min(each.rule.threshold / 20, _ENOUGH))


class SlowRuns:
    """Notifies about runs that take longer than their job's `warn_after`."""

    def __init__(self, store: Store, *, interval: timedelta = timedelta(seconds=2)) -> None:
        self._store = store
        self._interval = interval.total_seconds()
        self._reported: set[tuple[int, UUID]] = set()

    async def tick(self) -> float:
        slow = set(await self._store.notifications.slow_runs())
        for tenant_id, run_id in slow - self._reported:
            await self._store.events.append_events(EventKind.SLOW, tenant_id, [run_id])
        self._reported = slow
        return self._interval


class OpenBreakers:
    """Notifies once each time a breaker opens. A breaker that opens again after a probe is not reported again."""

    def __init__(self, store: Store, outbox: Outbox, *, interval: timedelta = timedelta(seconds=2)) -> None:
        self._store = store
        self._outbox = outbox
        self._interval = interval.total_seconds()

    async def tick(self) -> float:
        wants: Subscriptions = defaultdict(list)
        for tenant_id, subscription in await self._store.notifications.subscriptions():
            if subscription.wants(Topic.BREAKER_OPENED):
                wants[tenant_id].append(subscription)
        for tenant_id, subscriptions in wants.items():
            for breaker in await self._store.breakers.breakers(tenant_id):
                if breaker.state is BreakerState.OPEN and breaker.trips == 1:
                    await self._notify(breaker, subscriptions)
        return self._interval

    async def _notify(self, breaker: Breaker, subscriptions: list[Subscription]) -> None:
        text = f"{breaker.target} is failing: its runs wait until it recovers"
        data = {"target": breaker.target, "tried": breaker.tried, "failed": breaker.failed}
        message = Message(Topic.BREAKER_OPENED, breaker.since, text, data)
        about = f"{breaker.target}/{breaker.since.isoformat()}"
        jobs = [self._outbox.write(breaker.tenant_id, each, message, about) for each in subscriptions]
        await self._outbox.send(breaker.tenant_id, jobs)
