"""Payloads: bytes that jobs refer to."""

from uuid import UUID

from duetime.store.shared.service_rows import no_payload
from duetime.store.shared.transaction import SharedRole, Transaction


class PayloadRole(SharedRole):
    async def put_payload(self, tenant_id: int, payload_id: UUID, body: bytes) -> None:
        await self.transactions.of(tenant_id).execute("put_payload", tenant_id=tenant_id, id=payload_id, body=body)

    async def payload(self, tenant_id: int, payload_id: UUID) -> bytes:
        reading = self.transactions.reading(tenant_id)
        body: bytes | None = await reading.value("find_payload", tenant_id=tenant_id, id=payload_id)
        if body is None:
            raise no_payload(payload_id)
        return body

    async def held_payload(self, worker_id: UUID, payload_id: UUID) -> tuple[int, bytes]:
        row = await self.transactions.row("held_payload", worker_id=worker_id, id=payload_id)
        if row is None:
            raise no_payload(payload_id)
        return row["tenant_id"], row["body"]

    async def drop_payload(self, tenant_id: int, payload_id: UUID) -> None:
        async def work(transaction: Transaction) -> None:
            await transaction.execute("drop_payload_refs", tenant_id=tenant_id, id=payload_id)
            if not await transaction.execute("drop_payload", tenant_id=tenant_id, id=payload_id):
                raise no_payload(payload_id)

        await self.transactions.of(tenant_id).run(work)
