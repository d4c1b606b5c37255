"""Secrets of tenants: bytes that were sealed above the store."""

from datetime import datetime, timedelta
from uuid import UUID

from duetime.crypto.envelope import WrappedKey
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret, StoredSecret
from duetime.store.postgres.database import SQL, Row, affected
from duetime.store.postgres.role import Role
from duetime.store.shared.service_rows import no_secret


class SecretRole(Role):
    async def data_keys(self) -> list[WrappedKey]:
        return [WrappedKey(*row) for row in await self.database.fetch("list_data_keys")]

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        await self.database.execute("add_data_key", name, wrapped_by, wrapped)

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        await self.database.execute("rewrap_data_key", name, old, wrapped_by, wrapped)

    async def put_secret(self, tenant_id: int, name: str, value: bytes, binding: SecretBinding) -> datetime:
        given = (tenant_id, name, value, list(binding.hosts), list(binding.roles))
        async with self.database.acting_for(tenant_id) as connection:
            changed_at: datetime = await connection.fetchval(SQL["put_tenant_secret"], *given)
        return changed_at

    async def tenant_secrets(self, tenant_id: int) -> list[SecretInfo]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            rows = await connection.fetch(SQL["list_tenant_secrets"], tenant_id)
        return [SecretInfo(row["name"], row["created_at"], row["changed_at"], _binding(row)) for row in rows]

    async def tenant_secret(self, tenant_id: int, name: str) -> StoredSecret:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            row = await connection.fetchrow(SQL["find_tenant_secret"], tenant_id, name)
        if row is None:
            raise no_secret(name)
        return StoredSecret(row["value"], _binding(row))

    async def drop_secret(self, tenant_id: int, name: str) -> None:
        async with self.database.acting_for(tenant_id) as connection:
            dropped = affected(await connection.execute(SQL["drop_tenant_secret"], tenant_id, name))
        if not dropped:
            raise no_secret(name)

    async def signing_secrets(self, tenant_id: int) -> list[SigningSecret]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return [SigningSecret(*row) for row in await connection.fetch(SQL["list_signing_secrets"], tenant_id)]

    async def add_signing_secret(
        self, tenant_id: int, secret_id: UUID, value: bytes, overlap: timedelta | None
    ) -> SigningSecret:
        async with self.database.acting_for(tenant_id) as connection:
            if overlap is not None:
                await connection.execute(SQL["end_signing_secrets"], tenant_id, overlap)
            await connection.execute(SQL["add_signing_secret"], tenant_id, secret_id, value, overlap is not None)
            row = await connection.fetchrow(SQL["list_signing_secrets"], tenant_id)
        assert row is not None
        return SigningSecret(*row)


def _binding(row: Row) -> SecretBinding:
    return SecretBinding(tuple(row["hosts"]), tuple(row["roles"]))
