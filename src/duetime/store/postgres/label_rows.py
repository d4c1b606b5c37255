"""What jobs are found by, and which payloads they refer to, written beside them."""

from collections.abc import Sequence
from uuid import UUID

from duetime.store.postgres.database import SQL, Connection, columns
from duetime.store.rules.labels import labels_after_edit, payload_after_edit, payload_let_go


async def put_labels(
    connection: Connection, tenant_id: int, labels: Sequence[tuple[str, str, UUID]], refs: Sequence[tuple[UUID, UUID]]
) -> None:
    if labels:
        await connection.execute(SQL["put_labels"], tenant_id, *columns(labels, 3))
    if refs:
        await connection.execute(SQL["put_payload_refs"], tenant_id, *columns(refs, 2))


async def put_labels_again(
    connection: Connection, tenant_id: int, job_id: UUID, before: bytes | None, after: bytes | None
) -> None:
    """A job was edited, and may be found by other things now; `before` and `after` are its options."""
    await connection.execute(SQL["drop_said_labels"], tenant_id, job_id)
    if (payload_id := payload_let_go(before, after)) is not None:
        await connection.execute(SQL["drop_payload_ref"], tenant_id, job_id, payload_id)
    await put_labels(connection, tenant_id, labels_after_edit(job_id, after), payload_after_edit(job_id, after))
