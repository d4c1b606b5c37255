"""Notifying: what tenants want to be told, how far they have been told, and their alerts."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.errors import NotFound
from duetime.model.alert import Alert, AlertRule, encode_rule
from duetime.model.event import EventMark
from duetime.model.notification import RunNews, Subscription, decode_subscription, encode_subscription
from duetime.store.shared.notification_rows import alert_of, is_slow, news_of
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import maybe_stamp, microseconds, packed, places

_A_WHILE = timedelta(minutes=5)


class NotifyingRole(Role):
    async def put_subscription(self, tenant_id: int, subscription: Subscription) -> None:
        wanted = {"tenant_id": tenant_id, "name": subscription.name, "body": encode_subscription(subscription)}

        def work(connection: Connection, _now: int) -> None:
            connection.execute("put_subscription", wanted)
            connection.execute("listen_for_good", {})

        await self.database.run(work)

    async def subscriptions(self, tenant_id: int | None = None) -> list[tuple[int, Subscription]]:
        wanted = {"tenant_id": tenant_id}
        rows = await self.database.run(lambda connection, _: connection.rows("list_subscriptions", wanted))
        return [(tenant, decode_subscription(body)) for tenant, body in rows]

    async def delete_subscription(self, tenant_id: int, name: str) -> None:
        def work(connection: Connection, now: int) -> None:
            if not connection.execute("delete_subscription", {"tenant_id": tenant_id, "name": name}):
                raise NotFound(f"there is no subscription {name!r}", field="subscription")
            connection.execute("listen_no_more", {"until": now + microseconds(_A_WHILE)})

        await self.database.run(work)

    async def take_notifying(self, holder: UUID, period: timedelta) -> EventMark | None:
        def work(connection: Connection, now: int) -> int | None:
            this = {"holder": holder.bytes, "now": now, "until": now + microseconds(period)}
            number: int | None = connection.value("take_notifying", this)
            return number

        number = await self.database.run(work)
        return None if number is None else EventMark(number)

    async def notified(self, until: EventMark) -> None:
        await self.database.run(lambda connection, _: connection.execute("notified", {"number": until}))

    async def news_of_runs(
        self, tenant_id: int, run_ids: Sequence[UUID], *, started: datetime | None = None, ended: datetime | None = None
    ) -> list[RunNews]:
        ids = packed(run_ids)
        moments = {"started": maybe_stamp(started), "ended": maybe_stamp(ended)}
        wanted = {"tenant_id": tenant_id, "ids": ids, "places": places(ids), **moments}

        def work(connection: Connection, _now: int) -> list[dict[str, Any]]:
            return connection.records("news_of_live_runs", wanted) + connection.records("news_of_attempts", wanted)

        return [news_of(row) for row in await self.database.run(work)]

    async def slow_runs(self) -> list[tuple[int, UUID]]:
        held = await self.database.run(_held)
        return [(row["tenant_id"], row["id"]) for row in held if is_slow(row["options"], row["ran_for"])]

    async def count_dead_letters(self, tenant_id: int, queue: str | None, cap: int) -> int:
        wanted = {"tenant_id": tenant_id, "queue": queue, "cap": cap}
        return int(await self.database.run(lambda connection, _: connection.value("count_dead_letters", wanted)))

    async def count_ready(self, tenant_id: int, queue: str | None, cap: int, *, without: str) -> int:
        wanted = {"tenant_id": tenant_id, "queue": queue, "cap": cap, "without": without}
        return int(
            await self.database.run(lambda connection, now: connection.value("count_ready", {**wanted, "now": now}))
        )

    async def held_slots(self) -> dict[UUID, int]:
        return dict(Counter(row["worker_id"] for row in await self.database.run(_held)))

    async def put_alert(self, tenant_id: int, rule: AlertRule) -> Alert:
        wanted = {"tenant_id": tenant_id, "name": rule.name, "rule": encode_rule(rule)}
        await self.database.run(lambda connection, _: connection.execute("put_alert", wanted))
        return (await self.alerts(tenant_id, rule.name))[0]

    async def alerts(self, tenant_id: int, name: str | None = None) -> list[Alert]:
        wanted = {"tenant_id": tenant_id, "name": name}
        rows = await self.database.run(lambda connection, _: connection.records("list_alerts", wanted))
        return [alert_of(row) for row in rows]

    async def delete_alert(self, tenant_id: int, name: str) -> None:
        wanted = {"tenant_id": tenant_id, "name": name}
        if not await self.database.run(lambda connection, _: connection.execute("delete_alert", wanted)):
            raise NotFound(f"there is no alert {name!r}", field="alert")

    async def take_alerts(self, every: timedelta, limit: int = 100) -> list[Alert]:
        def work(connection: Connection, now: int) -> list[dict[str, Any]]:
            return connection.records("take_alerts", {"now": now, "every": microseconds(every), "limit": limit})

        return [alert_of(row) for row in await self.database.run(work)]

    async def keep_alert(self, alert: Alert, seen: int) -> bool:
        this = {
            "tenant_id": alert.tenant_id,
            "name": alert.rule.name,
            "rule": encode_rule(alert.rule),
            "open": int(alert.open),
            "value": alert.value,
            "wrong_since": maybe_stamp(alert.wrong_since),
            "changed_at": maybe_stamp(alert.changed_at),
            "version": alert.version,
            "seen": seen,
        }
        return await self.database.run(lambda connection, _: connection.execute("keep_alert", this)) > 0


def _held(connection: Connection, now: int) -> list[dict[str, Any]]:
    """The runs that workers hold, found by their claims: most runs wait, and are not looked at."""
    ids = b"".join(row[0] for row in connection.rows("claimed_ids", {}))
    return connection.records("held_runs_of", {"ids": ids, "places": places(ids), "now": now})
