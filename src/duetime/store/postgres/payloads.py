"""Payloads: bytes kept beside the jobs that refer to them."""

from uuid import UUID

from duetime.store.postgres.database import SQL, affected
from duetime.store.postgres.role import Role
from duetime.store.shared.service_rows import no_payload


class PayloadRole(Role):
    async def put_payload(self, tenant_id: int, payload_id: UUID, body: bytes) -> None:
        async with self.database.acting_for(tenant_id) as connection:
            await connection.execute(SQL["put_payload"], tenant_id, payload_id, body)

    async def payload(self, tenant_id: int, payload_id: UUID) -> bytes:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            body: bytes | None = await connection.fetchval(SQL["find_payload"], tenant_id, payload_id)
        if body is None:
            raise no_payload(payload_id)
        return body

    async def held_payload(self, worker_id: UUID, payload_id: UUID) -> tuple[int, bytes]:
        row = await self.database.fetchrow("held_payload", worker_id, payload_id)
        if row is None:
            raise no_payload(payload_id)
        return row[0], row[1]

    async def drop_payload(self, tenant_id: int, payload_id: UUID) -> None:
        async with self.database.acting_for(tenant_id) as connection:
            dropped = affected(await connection.execute(SQL["drop_payload"], tenant_id, payload_id))
        if not dropped:
            raise no_payload(payload_id)
