"""Subscriptions, the position up to which notifications were sent, and alerts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from msgspec.structs import replace

from duetime.errors import NotFound
from duetime.model.alert import Alert, AlertRule, decode_rule, encode_rule
from duetime.model.event import EventMark
from duetime.model.notification import (
    RunNews,
    Subscription,
    address_of,
    decode_subscription,
    encode_subscription,
    with_address,
)
from duetime.store.protocol.service import HearingRule
from duetime.store.shared.notification_rows import alert_of, encode, is_slow, news_of
from duetime.store.shared.transaction import Row, SharedRole, Transaction

_A_WHILE = timedelta(minutes=5)


class NotifyingRole(SharedRole):
    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        words = {"body": encode_subscription(_to(subscription, "")), "address": address_of(subscription.to)}
        wanted = {"tenant_id": tenant_id, "name": subscription.name, **words}

        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_notifying")
            await transaction.execute("put_subscription", **wanted)
            await transaction.execute("listen_for_good", number=await transaction.value("last_mark"))

        await self.transactions.run(work)

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        rows = await self.transactions.rows("list_subscriptions", tenant_id=tenant_id)
        return [(row["tenant_id"], _to(decode_subscription(row["body"]), row["address"])) for row in rows]

    async def delete_subscription(self, tenant_id: int, name: str) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_notifying")
            if not await transaction.execute("delete_subscription", tenant_id=tenant_id, name=name):
                raise NotFound(f"there is no subscription {name!r}", field="subscription")
            await transaction.execute("listen_no_more", period=_A_WHILE)

        await self.transactions.run(work)

    async def take_notifying(self, holder: UUID, period: timedelta) -> EventMark | None:
        number: int | None = await self.transactions.value("take_notifying", holder=holder, period=period)
        return None if number is None else EventMark(number)

    async def notified(self, until: EventMark) -> None:
        await self.transactions.execute("notified", number=until)

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        wanted = {"tenant_id": tenant_id, "ids": list(run_ids), "started": started}

        async def work(transaction: Transaction) -> list[Row]:
            live = await transaction.rows("news_of_live_runs", **wanted) if ended is None else ()
            return [*live, *await transaction.rows("news_of_attempts", **wanted, ended=ended)]

        return [news_of(row) for row in await self.transactions.reading(tenant_id).run(work)]

    async def slow_runs(self) -> list[tuple[int, UUID]]:
        rows = await self.transactions.rows("slow_candidates")
        return [(row["tenant_id"], row["id"]) for row in rows if is_slow(row["options"], row["ran_for"])]

    async def count_dead_letters(self, tenant_id: int, queue: str | None, cap: int) -> int:
        return int(await self.transactions.value("count_dead_letters", tenant_id=tenant_id, queue=queue, cap=cap))

    async def count_ready(self, tenant_id: int, queue: str | None, cap: int, *, without: str) -> int:
        wanted = {"tenant_id": tenant_id, "queue": queue, "cap": cap, "without": without}
        return int(await self.transactions.value("count_ready", **wanted))

    async def held_slots(self) -> dict[UUID, int]:
        return {row["worker_id"]: row["count"] for row in await self.transactions.rows("held_slots")}

    async def put_alert(self, tenant_id: int, rule: AlertRule) -> Alert:
        wanted = {"tenant_id": tenant_id, "name": rule.name, "rule": encode_rule(rule), "hears": rule.hears}

        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_notifying")
            await transaction.execute("put_alert", **wanted)
            if rule.hears:
                await transaction.execute("listen_for_good", number=await transaction.value("last_mark"))
            else:
                await transaction.execute("listen_no_more", period=_A_WHILE)

        await self.transactions.run(work)
        return (await self.alerts(tenant_id, rule.name))[0]

    async def alerts(self, tenant_id: int, name: str | None = None) -> list[Alert]:
        return [alert_of(row) for row in await self.transactions.rows("list_alerts", tenant_id=tenant_id, name=name)]

    async def delete_alert(self, tenant_id: int, name: str) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.lock("lock_notifying")
            if not await transaction.execute("delete_alert", tenant_id=tenant_id, name=name):
                raise NotFound(f"there is no alert {name!r}", field="alert")
            await transaction.execute("listen_no_more", period=_A_WHILE)

        await self.transactions.run(work)

    async def take_alerts(self, every: timedelta, limit: int = 100) -> list[Alert]:
        return [alert_of(row) for row in await self.transactions.rows("take_alerts", every=every, limit=limit)]

    async def keep_alert(self, alert: Alert, seen: int) -> bool:
        kept = await self.transactions.execute(
            "keep_alert",
            tenant_id=alert.tenant_id,
            name=alert.rule.name,
            rule=encode_rule(alert.rule),
            open=alert.open,
            value=alert.value,
            wrong_since=alert.wrong_since,
            counts_from=alert.counts_from,
            good_at=alert.good_at,
            changed_at=alert.changed_at,
            judged_at=alert.judged_at,
            pauses=encode(alert.pauses) if alert.pauses else None,
            version=alert.version,
            message=None if alert.message is None else encode(alert.message),
            seen=seen,
        )
        return kept > 0

    async def mark_alert_notified(self, alert: Alert) -> None:
        await self.transactions.execute(
            "mark_alert_notified", tenant_id=alert.tenant_id, name=alert.rule.name, version=alert.version
        )

    async def hearing_alerts(self) -> list[HearingRule]:
        rows = await self.transactions.rows("hearing_alerts")
        return [HearingRule(row["tenant_id"], decode_rule(row["rule"]), row["good_at"]) for row in rows]

    async def heard_success(self, tenant_id: int, rule: AlertRule, at: datetime) -> None:
        await self.transactions.execute(
            "heard_success", tenant_id=tenant_id, name=rule.name, rule=encode_rule(rule), at=at
        )

    async def events_read(self, until: datetime) -> None:
        await self.transactions.execute("events_read", at=until)

    async def events_read_until(self) -> datetime | None:
        until: datetime | None = await self.transactions.value("events_read_until")
        return until


def _to(subscription: Subscription, address: str) -> Subscription:
    """The address has its own column, so that it can be re-encrypted."""
    return replace(subscription, to=with_address(subscription.to, address))
