"""What jobs are found by, and which payloads they refer to, written beside them."""

from collections.abc import Sequence
from uuid import UUID

from duetime.model.job import NewJob
from duetime.store.rules.labels import label_rows, labels_after_edit, payload_after_edit, payload_let_go, payload_rows
from duetime.store.sqlite.connection import Connection


def put_labels(connection: Connection, tenant_id: int, jobs: Sequence[NewJob]) -> None:
    _put(connection, tenant_id, label_rows(jobs), payload_rows(jobs))


def put_labels_again(
    connection: Connection, tenant_id: int, job_id: UUID, before: bytes | None, after: bytes | None
) -> None:
    """A job was edited, and may be found by other things now; `before` and `after` are its options."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
    connection.execute("drop_said_labels", of_job)
    if (payload_id := payload_let_go(before, after)) is not None:
        connection.execute("drop_payload_ref", {**of_job, "payload_id": payload_id.bytes})
    _put(connection, tenant_id, labels_after_edit(job_id, after), payload_after_edit(job_id, after))


def _put(
    connection: Connection, tenant_id: int, labels: Sequence[tuple[str, str, UUID]], refs: Sequence[tuple[UUID, UUID]]
) -> None:
    if labels:
        connection.many("put_labels", [(tenant_id, kind, value, job_id.bytes) for kind, value, job_id in labels])
    if refs:
        connection.many(
            "put_payload_refs", [(payload_id.bytes, job_id.bytes, tenant_id) for payload_id, job_id in refs]
        )
