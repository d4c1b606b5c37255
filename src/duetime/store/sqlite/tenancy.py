"""Tenants, and secrets that must stay the same."""

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from duetime.model.tenant import NO_LIMITS, NewTenant, Tenant, TenantChange
from duetime.store.rules.caller_keys import IDEMPOTENCY, KEY, REPEAT
from duetime.store.rules.quotas import column_values
from duetime.store.shared.service_rows import FIRST_ID, LAST_ID, no_tenant, stored_tenant, taken
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import hold_running
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, packed, places

_COUNTED_AT_ONCE = 5_000


class TenancyRole(Role):
    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        values = {
            "name": tenant.name,
            "tier": tenant.tier,
            "weight": tenant.weight,
            "encrypt_args": tenant.encrypt_args,
            **column_values(tenant.limits),
        }

        def work(connection: Connection, now: int) -> Tenant:
            try:
                (row,) = connection.records("create_tenant", {**values, "now": now})
            except sqlite3.IntegrityError as error:
                raise taken(tenant.name) from error
            return stored_tenant(row)

        return await self.database.run(work)

    async def tenant(self, name: str) -> Tenant:
        rows = await self.database.run(lambda connection, _: connection.records("find_tenant", {"name": name}))
        if not rows:
            raise no_tenant(repr(name))
        return stored_tenant(rows[0])

    async def tenant_by_id(self, tenant_id: int) -> Tenant:
        wanted = {"tenant_id": tenant_id}
        rows = await self.database.run(lambda connection, _: connection.records("find_tenant_by_id", wanted))
        if not rows:
            raise no_tenant(str(tenant_id))
        return stored_tenant(rows[0])

    async def tenants(self, after: int = 0, limit: int = 100) -> list[Tenant]:
        page = {"after": after, "limit": limit}
        rows = await self.database.run(lambda connection, _: connection.records("list_tenants", page))
        return [stored_tenant(row) for row in rows]

    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        values = {
            "tenant_id": tenant_id,
            "name": change.name,
            "state": change.state,
            "tier": change.tier,
            "weight": change.weight,
            "encrypt_args": change.encrypt_args,
            "limited": change.limits is not None,
            **column_values(change.limits or NO_LIMITS),
        }

        def work(connection: Connection, now: int) -> Tenant:
            try:
                rows = connection.records("update_tenant", values)
            except sqlite3.IntegrityError as error:
                raise taken(change.name) from error
            if not rows:
                raise no_tenant(str(tenant_id))
            if change.limits is not None and change.limits.running_runs is not None:
                hold_running(connection, connection.value("set_tenant_limit", {"tenant_id": tenant_id, "now": now}))
            return stored_tenant(rows[0])

        return await self.database.run(work)

    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        wanted: dict[str, Any] = {"tenant_id": tenant_id}
        if kind == "graphs":
            wanted["most"] = most
            return int(await self.database.run(lambda connection, _: connection.value("count_graphs", wanted)))
        if kind == "idempotency_keys":
            parts = [
                await self._count("keys_to_count", "count_keys", {**wanted, "kind": each}, ("", None), most)
                for each in (IDEMPOTENCY, KEY, REPEAT)
            ]
            return min(most, sum(rows for rows, _ in parts))
        of_jobs = ("jobs_to_count", "count_jobs"), ("runs_to_count", "count_live_runs")
        ends = (FIRST_ID.bytes, LAST_ID.bytes)
        if kind == "stored_jobs":
            return min(most, sum([(await self._count(*names, wanted, ends, most))[0] for names in of_jobs]))
        assert kind == "stored_bytes"
        return sum([(await self._count(*names, wanted, ends, None))[1] for names in of_jobs])

    async def _count(
        self, part: str, count: str, wanted: dict[str, Any], ends: tuple[Any, Any], most: int | None
    ) -> tuple[int, int]:
        """Rows and bytes between two ends, part by part: no caller waits long for the one connection."""
        after, end = ends
        rows = size = 0

        def work(connection: Connection, _now: int) -> tuple[Any, tuple[int, int]]:
            until = connection.value(part, {**wanted, "after": after, "batch": _COUNTED_AT_ONCE})
            found = connection.row(count, {**wanted, "after": after, "until": end if until is None else until})
            return until, found or (0, 0)

        while most is None or rows < most:
            after, found = await self.database.run(work)
            rows, size = rows + found[0], size + found[1]
            if after is None:
                break
        return rows, size

    async def encrypting_tenants(self) -> frozenset[int]:
        rows = await self.database.run(lambda connection, _: connection.rows("encrypting_tenants", {}))
        return frozenset(row[0] for row in rows)

    async def tenants_of_runs(self, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        ids = packed(run_ids)
        wanted = {"ids": ids, "places": places(ids)}
        rows = await self.database.run(lambda connection, _: connection.rows("tenants_of_runs", wanted))
        return {identity(run_id): tenant_id for run_id, tenant_id in rows}

    async def secret(self, name: str, fresh: bytes) -> bytes:
        def work(connection: Connection, _now: int) -> bytes:
            connection.execute("keep_secret", {"name": name, "fresh": fresh})
            kept: bytes = connection.value("find_secret", {"name": name})
            return kept

        return await self.database.run(work)
