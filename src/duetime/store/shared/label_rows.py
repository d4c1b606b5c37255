"""What jobs are found by, and which payloads they refer to, written beside them."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.job import NewJob
from duetime.store.rules.labels import label_rows, labels_after_edit, payload_after_edit, payload_let_go, payload_rows
from duetime.store.shared.transaction import Transaction

Labels = Sequence[tuple[str, str, UUID]]
Refs = Sequence[tuple[UUID, UUID]]


async def put_labels_of(transaction: Transaction, tenant_id: int, jobs: Sequence[NewJob]) -> None:
    await put_labels(transaction, tenant_id, label_rows(jobs), payload_rows(jobs))


async def put_labels(transaction: Transaction, tenant_id: int, labels: Labels, refs: Refs) -> None:
    await transaction.put("put_labels", ("kind", "value", "job_id"), labels, tenant_id=tenant_id)
    await transaction.put("put_payload_refs", ("payload_id", "job_id"), refs, tenant_id=tenant_id)


async def put_labels_again(
    transaction: Transaction, tenant_id: int, job_id: UUID, before: bytes | None, after: bytes | None
) -> None:
    """Replace the labels of an edited job. `before` and `after` are its options."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id}
    await transaction.execute("drop_said_labels", **of_job)
    if (payload_id := payload_let_go(before, after)) is not None:
        await transaction.execute("drop_payload_ref", **of_job, payload_id=payload_id)
    await put_labels(transaction, tenant_id, labels_after_edit(job_id, after), payload_after_edit(job_id, after))
