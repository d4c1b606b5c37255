"""Payloads: bytes kept beside the jobs that refer to them."""

from typing import Any
from uuid import UUID

from duetime.store.shared.service_rows import no_payload
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role


class PayloadRole(Role):
    async def put_payload(self, tenant_id: int, payload_id: UUID, body: bytes) -> None:
        values = {"tenant_id": tenant_id, "id": payload_id.bytes, "body": body}
        await self.database.run(lambda connection, now: connection.execute("put_payload", {**values, "now": now}))

    async def payload(self, tenant_id: int, payload_id: UUID) -> bytes:
        wanted = {"tenant_id": tenant_id, "id": payload_id.bytes}
        body: bytes | None = await self.database.run(lambda connection, _: connection.value("find_payload", wanted))
        if body is None:
            raise no_payload(payload_id)
        return body

    async def held_payload(self, worker_id: UUID, payload_id: UUID) -> tuple[int, bytes]:
        def work(connection: Connection, now: int) -> tuple[Any, ...] | None:
            wanted = {"worker_id": worker_id.bytes, "id": payload_id.bytes, "now": now}
            return connection.row("held_payload", wanted)

        row = await self.database.run(work)
        if row is None:
            raise no_payload(payload_id)
        return row[0], row[1]

    async def drop_payload(self, tenant_id: int, payload_id: UUID) -> None:
        this = {"tenant_id": tenant_id, "id": payload_id.bytes}
        if not await self.database.run(lambda connection, _: connection.execute("drop_payload", this)):
            raise no_payload(payload_id)
