"""Secrets of tenants: bytes that were sealed above the store."""

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from duetime.crypto.envelope import WrappedKey
from duetime.model.secret import SecretBinding, SecretInfo, SigningSecret, StoredSecret
from duetime.store.shared.service_rows import no_secret
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, listed, maybe_moment, microseconds, moment, names


class SecretRole(Role):
    async def data_keys(self) -> list[WrappedKey]:
        rows = await self.database.run(lambda connection, _: connection.rows("list_data_keys", {}))
        return [WrappedKey(row[0], row[1], row[2], moment(row[3])) for row in rows]

    async def add_data_key(self, name: str, wrapped_by: str, wrapped: bytes) -> None:
        this = {"name": name, "wrapped_by": wrapped_by, "wrapped": wrapped}
        await self.database.run(lambda connection, now: connection.execute("add_data_key", {**this, "now": now}))

    async def rewrap_data_key(self, name: str, old: bytes, wrapped_by: str, wrapped: bytes) -> None:
        this = {"name": name, "old": old, "wrapped_by": wrapped_by, "wrapped": wrapped}
        await self.database.run(lambda connection, _: connection.execute("rewrap_data_key", this))

    async def put_secret(self, tenant_id: int, name: str, value: bytes, binding: SecretBinding) -> datetime:
        this = {"tenant_id": tenant_id, "name": name, "value": value}
        this |= {"hosts": listed(binding.hosts), "roles": listed(binding.roles)}
        return moment(
            await self.database.run(lambda connection, now: connection.value("put_tenant_secret", {**this, "now": now}))
        )

    async def tenant_secrets(self, tenant_id: int) -> list[SecretInfo]:
        this = {"tenant_id": tenant_id}
        rows = await self.database.run(lambda connection, _: connection.rows("list_tenant_secrets", this))
        return [SecretInfo(row[0], moment(row[1]), moment(row[2]), _binding(*row[3:])) for row in rows]

    async def tenant_secret(self, tenant_id: int, name: str) -> StoredSecret:
        this = {"tenant_id": tenant_id, "name": name}
        rows = await self.database.run(lambda connection, _: connection.rows("find_tenant_secret", this))
        if not rows:
            raise no_secret(name)
        value, hosts, roles = rows[0]
        return StoredSecret(value, _binding(hosts, roles))

    async def drop_secret(self, tenant_id: int, name: str) -> None:
        this = {"tenant_id": tenant_id, "name": name}
        if not await self.database.run(lambda connection, _: connection.execute("drop_tenant_secret", this)):
            raise no_secret(name)

    async def signing_secrets(self, tenant_id: int) -> list[SigningSecret]:
        return await self.database.run(lambda connection, now: _signing(connection, tenant_id, now))

    async def add_signing_secret(
        self, tenant_id: int, secret_id: UUID, value: bytes, overlap: timedelta | None
    ) -> SigningSecret:
        def work(connection: Connection, now: int) -> SigningSecret:
            this: dict[str, Any] = {"tenant_id": tenant_id, "now": now}
            if overlap is not None:
                connection.execute("end_signing_secrets", {**this, "overlap": microseconds(overlap)})
            added = {"id": secret_id.bytes, "value": value, "always": overlap is not None}
            connection.execute("add_signing_secret", {**this, **added})
            return _signing(connection, tenant_id, now)[0]

        return await self.database.run(work)


def _signing(connection: Connection, tenant_id: int, now: int) -> list[SigningSecret]:
    rows = connection.rows("list_signing_secrets", {"tenant_id": tenant_id, "now": now})
    return [SigningSecret(identity(row[0]), row[1], moment(row[2]), maybe_moment(row[3])) for row in rows]


def _binding(hosts: str, roles: str) -> SecretBinding:
    return SecretBinding(names(hosts), names(roles))
