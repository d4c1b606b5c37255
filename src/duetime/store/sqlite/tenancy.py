"""Tenants, and secrets that must stay the same."""

import sqlite3
from typing import Any

from duetime.model.tenant import NewTenant, Tenant, TenantChange, TenantLimits
from duetime.store.service_views import no_tenant, stored_tenant, taken
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.limiting import hold_running
from duetime.store.sqlite.role import Role


class TenancyRole(Role):
    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        values = {
            "name": tenant.name,
            "tier": tenant.tier,
            "weight": tenant.weight,
            "encrypt_args": tenant.encrypt_args,
            **_limits(tenant.limits),
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
            **_limits(change.limits or TenantLimits()),
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

    async def stored_jobs(self, tenant_id: int, most: int) -> int:
        wanted = {"tenant_id": tenant_id, "most": most}
        count: int = await self.database.run(lambda connection, _: connection.value("count_jobs", wanted))
        return min(most, count)

    async def secret(self, name: str, fresh: bytes) -> bytes:
        def work(connection: Connection, _now: int) -> bytes:
            connection.execute("keep_secret", {"name": name, "fresh": fresh})
            kept: bytes = connection.value("find_secret", {"name": name})
            return kept

        return await self.database.run(work)


def _limits(limits: TenantLimits) -> dict[str, Any]:
    return {
        "stored_jobs": limits.stored_jobs,
        "running_runs": limits.running_runs,
        "submissions_per_second": limits.submissions_per_second,
        "fires_per_second": limits.fires_per_second,
    }
