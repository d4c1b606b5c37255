"""What jobs are found by, and which payloads they refer to, written beside them."""

from collections.abc import Sequence
from uuid import UUID

from duetime.store.postgres.database import SQL, Connection, columns


async def put_labels(
    connection: Connection, tenant_id: int, labels: Sequence[tuple[str, str, UUID]], refs: Sequence[tuple[UUID, UUID]]
) -> None:
    if labels:
        await connection.execute(SQL["put_labels"], tenant_id, *columns(labels, 3))
    if refs:
        await connection.execute(SQL["put_payload_refs"], tenant_id, *columns(refs, 2))
