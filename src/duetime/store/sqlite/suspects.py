"""Suspects: jobs and tasks whose runs were there when workers died."""

from collections.abc import Iterable, Sequence
from uuid import UUID

from duetime.model.suspicion import FORGET_JOBS, FORGET_TASKS, Loss
from duetime.store.rules.deaths import deaths_of_jobs, trial_lanes, worst_of_tasks
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.lanes import LaneBook
from duetime.store.sqlite.values import identity, microseconds, packed, places


def suspect(connection: Connection, book: LaneBook, now: int, losses: Sequence[Loss]) -> dict[UUID, int]:
    """Count what these runs were lost for, of their jobs and tasks; returns the trial lane of each run."""
    in_a_row: dict[UUID, int] = {}
    for (tenant_id, task, job_id), count in deaths_of_jobs(losses).items():
        of_job = {"tenant_id": tenant_id, "task": task, "job_id": job_id.bytes, "losses": count, "now": now}
        in_a_row |= {identity(found): total for found, total in connection.rows("suspect_jobs", of_job)}
    for (tenant_id, task), count in worst_of_tasks(losses, in_a_row).items():
        connection.execute("suspect_tasks", {"tenant_id": tenant_id, "task": task, "losses": count, "now": now})
    keys = trial_lanes(losses, in_a_row)
    lanes = book.ids(connection, set(keys.values()))
    return {run_id: lanes[key] for run_id, key in keys.items()}


def tend_suspects(connection: Connection, now: int) -> None:
    """Clear those that have proved harmless, and put the waiting runs of the others on trial."""
    if connection.value("has_suspects", {}):
        forget = {"forget_jobs": microseconds(FORGET_JOBS), "forget_tasks": microseconds(FORGET_TASKS)}
        connection.execute("clear_suspects", {**forget, "now": now})
        put_on_trial(connection, now)


def put_on_trial(connection: Connection, now: int, job_ids: Iterable[UUID] | None = None) -> None:
    """Runs of these jobs, or of all, that no worker has held go where their jobs' standing says."""
    if connection.value("has_suspects", {}):
        jobs = None if job_ids is None else packed(job_ids)
        connection.execute("put_on_trial", {"now": now, "jobs": jobs, "places": places(jobs or b"")})
