"""Tenants, and the secrets that all nodes share."""

from collections.abc import Sequence
from uuid import UUID

import asyncpg

from duetime.model.tenant import NO_LIMITS, NewTenant, Tenant, TenantChange
from duetime.store.postgres.database import SQL
from duetime.store.postgres.deadlock_retry import retry_on_deadlock
from duetime.store.postgres.limiting import LimitingRole
from duetime.store.rules.quotas import column_values
from duetime.store.shared.service_rows import no_tenant, stored_tenant, taken

_COUNTS = {
    "stored_jobs": "count_jobs",
    "stored_bytes": "count_bytes",
    "idempotency_keys": "count_keys",
    "graphs": "count_graphs",
}


class TenancyRole(LimitingRole):
    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        async with self.database.connection() as connection:
            try:
                row = await connection.fetchrow(
                    SQL["create_tenant"],
                    tenant.name,
                    tenant.tier,
                    tenant.weight,
                    tenant.encrypt_args,
                    *column_values(tenant.limits).values(),
                )
            except asyncpg.UniqueViolationError as error:
                raise taken(tenant.name) from error
        assert row is not None
        return stored_tenant(row)

    async def tenant(self, name: str) -> Tenant:
        row = await self.database.fetchrow("find_tenant", name)
        if row is None:
            raise no_tenant(repr(name))
        return stored_tenant(row)

    async def tenant_by_id(self, tenant_id: int) -> Tenant:
        row = await self.database.fetchrow("find_tenant_by_id", tenant_id)
        if row is None:
            raise no_tenant(str(tenant_id))
        return stored_tenant(row)

    async def tenants(self, after: int = 0, limit: int = 100) -> list[Tenant]:
        return [stored_tenant(row) for row in await self.database.fetch("list_tenants", after, limit)]

    @retry_on_deadlock
    async def update_tenant(self, tenant_id: int, change: TenantChange) -> Tenant:
        async with self.database.transaction() as connection:
            try:
                row = await connection.fetchrow(
                    SQL["update_tenant"],
                    tenant_id,
                    change.name,
                    change.state,
                    change.tier,
                    change.weight,
                    change.encrypt_args,
                    change.limits is not None,
                    *column_values(change.limits or NO_LIMITS).values(),
                )
            except asyncpg.UniqueViolationError as error:
                raise taken(change.name) from error
            if row is None:
                raise no_tenant(str(tenant_id))
            if change.limits is not None and change.limits.running_runs is not None:
                limit_id = await connection.fetchval(SQL["set_tenant_limit"], tenant_id)
                await connection.execute(SQL["hold_running"], limit_id)
        await self.rules()
        return stored_tenant(row)

    async def usage(self, tenant_id: int, kind: str, most: int) -> int:
        count: int = await self.database.fetchval(_COUNTS[kind], tenant_id, most)
        return min(most, count)

    async def encrypting_tenants(self) -> frozenset[int]:
        return frozenset(row[0] for row in await self.database.fetch("encrypting_tenants"))

    async def tenants_of_runs(self, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        return dict(map(tuple, await self.database.fetch("tenants_of_runs", list(run_ids))))

    async def secret(self, name: str, fresh: bytes) -> bytes:
        await self.database.execute("keep_secret", name, fresh)
        kept: bytes = await self.database.fetchval("find_secret", name)
        return kept
