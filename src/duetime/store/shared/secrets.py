"""Secrets of tenants, as bytes that the caller has encrypted."""

from datetime import datetime, timedelta
from uuid import UUID

from duetime.crypto.envelope import WrappedKey
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret, StoredSecret
from duetime.store.shared.service_rows import no_secret
from duetime.store.shared.transaction import Row, SharedRole, Transaction, found


class SecretRole(SharedRole):
    async def data_keys(self) -> list[WrappedKey]:
        rows = await self.transactions.rows("list_data_keys")
        return [WrappedKey(row["name"], row["wrapped_by"], row["wrapped"], row["created_at"]) for row in rows]

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        await self.transactions.execute("add_data_key", name=name, wrapped_by=wrapped_by, wrapped=wrapped)

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        await self.transactions.execute("rewrap_data_key", name=name, old=old, wrapped_by=wrapped_by, wrapped=wrapped)

    async def put_secret(self, tenant_id: int, name: str, value: bytes, binding: SecretBinding) -> datetime:
        changed_at: datetime = await self.transactions.of(tenant_id).value(
            "put_tenant_secret",
            tenant_id=tenant_id,
            name=name,
            value=value,
            hosts=binding.hosts,
            roles=binding.roles,
        )
        return changed_at

    async def tenant_secrets(self, tenant_id: int) -> list[SecretInfo]:
        rows = await self.transactions.reading(tenant_id).rows("list_tenant_secrets", tenant_id=tenant_id)
        return [SecretInfo(row["name"], row["created_at"], row["changed_at"], _binding(row)) for row in rows]

    async def tenant_secret(self, tenant_id: int, name: str) -> StoredSecret:
        row = await self.transactions.reading(tenant_id).row("find_tenant_secret", tenant_id=tenant_id, name=name)
        if row is None:
            raise no_secret(name)
        return StoredSecret(row["value"], _binding(row))

    async def drop_secret(self, tenant_id: int, name: str) -> None:
        if not await self.transactions.of(tenant_id).execute("drop_tenant_secret", tenant_id=tenant_id, name=name):
            raise no_secret(name)

    async def signing_secrets(self, tenant_id: int) -> list[SigningSecret]:
        rows = await self.transactions.reading(tenant_id).rows("list_signing_secrets", tenant_id=tenant_id)
        return [_signing(row) for row in rows]

    async def add_signing_secret(
        self, tenant_id: int, secret_id: UUID, value: bytes, overlap: timedelta | None
    ) -> SigningSecret:
        added = {"id": secret_id, "value": value, "always": overlap is not None}

        async def work(transaction: Transaction) -> SigningSecret:
            if overlap is not None:
                await transaction.execute("forget_signing_secrets", tenant_id=tenant_id)
                await transaction.execute("end_signing_secrets", tenant_id=tenant_id, overlap=overlap)
            await transaction.execute("add_signing_secret", tenant_id=tenant_id, **added)
            return _signing(found(await transaction.row("list_signing_secrets", tenant_id=tenant_id)))

        return await self.transactions.of(tenant_id).run(work)


def _binding(row: Row) -> SecretBinding:
    return SecretBinding(tuple(row["hosts"]), tuple(row["roles"]))


def _signing(row: Row) -> SigningSecret:
    return SigningSecret(row["id"], row["value"], row["created_at"], row["expires_at"])
