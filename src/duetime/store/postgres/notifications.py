"""Notifying: what tenants want to be told, how far they have been told, and their alerts."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from uuid import UUID

from duetime.errors import NotFound
from duetime.model.alert import Alert, AlertRule, encode_rule
from duetime.model.event import EventMark
from duetime.model.notification import RunNews, Subscription, decode_subscription, encode_subscription
from duetime.store.postgres.database import SQL, affected
from duetime.store.postgres.role import Role
from duetime.store.shared.notification_rows import alert_of, is_slow, news_of


class NotifyingRole(Role):
    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        body = encode_subscription(subscription)
        async with self.database.transaction() as connection:
            await connection.execute(SQL["lock_notifying"])
            await connection.execute(SQL["put_subscription"], tenant_id, subscription.name, body)
            await connection.execute(SQL["listen_for_good"], await connection.fetchval(SQL["last_mark"]))

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        rows = await self.database.fetch("list_subscriptions", tenant_id)
        return [(row["tenant_id"], decode_subscription(row["body"])) for row in rows]

    async def delete_subscription(self, tenant_id: int, name: str) -> None:
        async with self.database.transaction() as connection:
            await connection.execute(SQL["lock_notifying"])
            if not affected(await connection.execute(SQL["delete_subscription"], tenant_id, name)):
                raise NotFound(f"there is no subscription {name!r}", field="subscription")
            await connection.execute(SQL["listen_no_more"])

    async def take_notifying(self, holder: UUID, period: timedelta) -> EventMark | None:
        number: int | None = await self.database.fetchval("take_notifying", holder, period)
        return None if number is None else EventMark(number)

    async def notified(self, until: EventMark) -> None:
        await self.database.execute("notified", until)

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["news_of_runs"], tenant_id, list(run_ids), started, ended)
        return [news_of(row) for row in rows]

    async def slow_runs(self) -> list[tuple[int, UUID]]:
        rows = await self.database.fetch("slow_candidates")
        return [(row["tenant_id"], row["id"]) for row in rows if is_slow(row["options"], row["ran_for"])]

    async def count_dead_letters(self, tenant_id: int, queue: str | None, cap: int) -> int:
        return int(await self.database.fetchval("count_dead_letters", tenant_id, queue, cap))

    async def count_ready(self, tenant_id: int, queue: str | None, cap: int, *, without: str) -> int:
        return int(await self.database.fetchval("count_ready", tenant_id, queue, cap, without))

    async def held_slots(self) -> dict[UUID, int]:
        return {row[0]: row[1] for row in await self.database.fetch("held_slots")}

    async def put_alert(self, tenant_id: int, rule: AlertRule) -> Alert:
        await self.database.execute("put_alert", tenant_id, rule.name, encode_rule(rule))
        return (await self.alerts(tenant_id, rule.name))[0]

    async def alerts(self, tenant_id: int, name: str | None = None) -> list[Alert]:
        return [alert_of(row) for row in await self.database.fetch("list_alerts", tenant_id, name)]

    async def delete_alert(self, tenant_id: int, name: str) -> None:
        if not await self.database.execute("delete_alert", tenant_id, name):
            raise NotFound(f"there is no alert {name!r}", field="alert")

    async def take_alerts(self, every: timedelta, limit: int = 100) -> list[Alert]:
        return [alert_of(row) for row in await self.database.fetch("take_alerts", every, limit)]

    async def keep_alert(self, alert: Alert, seen: int) -> bool:
        kept = await self.database.execute(
            "keep_alert",
            alert.tenant_id,
            alert.rule.name,
            encode_rule(alert.rule),
            alert.open,
            alert.value,
            alert.wrong_since,
            alert.changed_at,
            alert.version,
            seen,
        )
        return kept > 0
