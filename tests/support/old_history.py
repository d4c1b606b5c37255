"""Rows of history of a day that is long over, put where the store keeps them."""

from datetime import datetime, timedelta
from uuid import UUID

from duetime.archive.names import date_of
from duetime.ids import new_id, once_run_id
from duetime.model.attempt import AttemptState
from duetime.model.job import DEFAULT_TENANT
from duetime.model.lane import LaneKey, Tier
from duetime.model.microseconds import EPOCH
from duetime.model.run import RunState
from duetime.store.protocol.archives import ArchivedRow
from duetime.store.protocol.store import Store
from duetime.store.shared.archives import SharedArchives


async def add_ended(
    store: Store,
    day: int,
    count: int,
    *,
    tenant_id: int = DEFAULT_TENANT,
    task: str = "greet",
    args: bytes = b"{}",
    result: bytes | None = None,
    options: bytes | None = None,
) -> list[UUID]:
    """Ended runs, from the start of the day on; returns their ids, newest first."""
    assert isinstance(store.archives, SharedArchives)
    await store.archives.make_room(day)
    start = EPOCH + timedelta(days=day)
    rows = [_row(start + timedelta(seconds=number), tenant_id, task, args, result, options) for number in range(count)]
    for first in range(0, count, 1000):
        await store.archives.restore_rows(tenant_id, rows[first : first + 1000])
    assert date_of(day).isoformat() == start.date().isoformat()
    return sorted((row.values["run_id"] for row in rows), reverse=True)


def _row(
    at: datetime, tenant_id: int, task: str, args: bytes, result: bytes | None, options: bytes | None
) -> ArchivedRow:
    job_id = new_id()
    values = {
        "run_id": once_run_id(job_id, at),
        "job_id": job_id,
        "fence": 1,
        "attempt": 1,
        "lost": 0,
        "attempt_state": AttemptState.SUCCEEDED,
        "end_state": RunState.SUCCEEDED,
        "failure": None,
        "due_at": at,
        "ready_at": at,
        "started_at": at,
        "first_started_at": None,
        "finished_at": at + timedelta(milliseconds=20),
        "worker_id": None,
        "timeout_ms": None,
        "args": args,
        "options": options,
        "result": result,
        "logs": None,
        "error": None,
    }
    return ArchivedRow(LaneKey(tenant_id, "default", Tier.MEDIUM, task), values)
