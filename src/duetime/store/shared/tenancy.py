"""Tenants, and the secrets that all nodes share."""

from collections.abc import Callable, Sequence
from uuid import UUID

import msgspec

from duetime.model.defaults import Defaults
from duetime.model.tenant import NO_LIMITS, NewTenant, Tenant, TenantChange
from duetime.store.protocol.store import Claims
from duetime.store.rules.quotas import column_values
from duetime.store.shared.service_rows import no_tenant, stored_tenant, taken
from duetime.store.shared.transaction import NotUnique, SharedContext, SharedRole, Transaction, found


class TenancyRole(SharedRole):
    def __init__(self, context: SharedContext, claims: Claims) -> None:
        super().__init__(context)
        self._claims = claims

    async def create_tenant(self, tenant: NewTenant) -> Tenant:
        values = {
            "name": tenant.name,
            "tier": tenant.tier,
            "weight": tenant.weight,
            "encrypt_args": tenant.encrypt_args,
            **column_values(tenant.limits),
        }
        try:
            return stored_tenant(found(await self.transactions.row("create_tenant", **values)))
        except NotUnique as error:
            raise taken(tenant.name) from error

    async def tenant(self, name: str) -> Tenant:
        row = await self.transactions.row("find_tenant", name=name)
        if row is None:
            raise no_tenant(repr(name))
        return stored_tenant(row)

    async def tenant_by_id(self, tenant_id: int) -> Tenant:
        row = await self.transactions.row("find_tenant_by_id", tenant_id=tenant_id)
        if row is None:
            raise no_tenant(str(tenant_id))
        return stored_tenant(row)

    async def tenants(self, after: int = 0, limit: int = 100) -> list[Tenant]:
        return [stored_tenant(row) for row in await self.transactions.rows("list_tenants", after=after, limit=limit)]

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

        async def work(transaction: Transaction) -> Tenant:
            row = await transaction.row("update_tenant", **values)
            if row is None:
                raise no_tenant(str(tenant_id))
            if change.limits is not None and change.limits.running_runs is not None:
                limit_id = await transaction.value("set_tenant_limit", tenant_id=tenant_id)
                await transaction.execute("hold_running", limit_id=limit_id)
            return stored_tenant(row)

        try:
            changed = await self.transactions.run(work)
        except NotUnique as error:
            raise taken(change.name) from error
        await self._claims.rules()
        return changed

    async def change_defaults(self, tenant_id: int, change: Callable[[Defaults], Defaults]) -> Tenant:
        async def work(transaction: Transaction) -> Tenant:
            row = await transaction.row("lock_tenant", tenant_id=tenant_id)
            if row is None:
                raise no_tenant(str(tenant_id))
            defaults = change(row["defaults"])
            await transaction.execute("put_defaults", tenant_id=tenant_id, defaults=defaults)
            return msgspec.structs.replace(stored_tenant(row), defaults=defaults)

        return await self.transactions.run(work)

    async def encrypting_tenants(self) -> frozenset[int]:
        return frozenset([row["id"] for row in await self.transactions.rows("encrypting_tenants")])

    async def tenants_of_runs(self, run_ids: Sequence[UUID]) -> dict[UUID, int]:
        rows = await self.transactions.rows("tenants_of_runs", ids=list(run_ids))
        return {row["id"]: row["tenant_id"] for row in rows}

    async def secret(self, name: str, fresh: bytes) -> bytes:
        await self.transactions.execute("keep_secret", name=name, fresh=fresh)
        kept: bytes = await self.transactions.value("find_secret", name=name)
        return kept
