"""Bulk actions: their plans and their progress."""

from datetime import timedelta
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.bulk import (
    Bulk,
    BulkStep,
    NewBulk,
    decode_bulk_errors,
    decode_plan,
    encode_bulk_errors,
    encode_plan,
)
from duetime.model.idempotency import KeyedRequest
from duetime.store.rules.job_rows import from_row
from duetime.store.shared.answers import first_answer, keep_answer
from duetime.store.shared.transaction import Row, SharedRole, Transaction

KEPT = 100
"""How many bulk actions that are over are kept for each tenant."""


class BulkRole(SharedRole):
    async def put_bulk(self, bulk: NewBulk, request: KeyedRequest | None = None) -> Bulk:
        tenant_id = bulk.tenant_id

        async def work(transaction: Transaction) -> Bulk:
            made = await first_answer(transaction, tenant_id, request, UUID)
            if made is None:
                made = bulk.id
                await transaction.execute(
                    "put_bulk",
                    id=bulk.id,
                    tenant_id=tenant_id,
                    body=encode_plan(bulk.plan),
                    key_id=bulk.key_id,
                    actor=bulk.actor,
                    errors=encode_bulk_errors(()),
                )
                await transaction.execute("trim_bulks", tenant_id=tenant_id, kept=KEPT)
                await keep_answer(transaction, tenant_id, request, made)
            return await _found(transaction, tenant_id, made)

        return await self.transactions.of(tenant_id).run(work)

    async def bulks(self, tenant_id: int, limit: int = 50) -> list[Bulk]:
        rows = await self.transactions.of(tenant_id).rows("list_bulks", tenant_id=tenant_id, id=None, limit=limit)
        return [_bulk(row) for row in rows]

    async def bulk(self, tenant_id: int, bulk_id: UUID) -> Bulk:
        async def work(transaction: Transaction) -> Bulk:
            return await _found(transaction, tenant_id, bulk_id)

        return await self.transactions.of(tenant_id).run(work)

    async def stop_bulk(self, tenant_id: int, bulk_id: UUID) -> Bulk:
        async def work(transaction: Transaction) -> Bulk:
            await transaction.execute("stop_bulk", tenant_id=tenant_id, id=bulk_id)
            return await _found(transaction, tenant_id, bulk_id)

        return await self.transactions.of(tenant_id).run(work)

    async def take_bulk(self, holder: UUID, period: timedelta) -> Bulk | None:
        row = await self.transactions.row("take_bulk", holder=holder, period=period)
        return None if row is None else _bulk(row)

    async def keep_bulk(self, bulk: Bulk, holder: UUID, step: BulkStep, period: timedelta) -> bool:
        kept = await self.transactions.execute(
            "keep_bulk",
            tenant_id=bulk.tenant_id,
            id=bulk.id,
            holder=holder,
            below=step.below,
            done=step.done,
            skipped=step.skipped,
            failed=step.failed,
            errors=None if step.errors is None else encode_bulk_errors(step.errors),
            finished=step.finished,
            period=period,
        )
        return kept > 0

    async def leave_bulk(self, bulk: Bulk, holder: UUID, wait: timedelta) -> None:
        await self.transactions.execute("leave_bulk", tenant_id=bulk.tenant_id, id=bulk.id, holder=holder, wait=wait)


async def _found(transaction: Transaction, tenant_id: int, bulk_id: UUID) -> Bulk:
    row = await transaction.row("list_bulks", tenant_id=tenant_id, id=bulk_id, limit=1)
    if row is None:
        raise NotFound(f"there is no bulk action {show('blk', bulk_id)}", remedy="GET /v1/bulk-actions lists them")
    return _bulk(row)


def _bulk(row: Row) -> Bulk:
    return from_row(Bulk, row, plan=decode_plan(row["body"]), errors=decode_bulk_errors(row["errors"]))
