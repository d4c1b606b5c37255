"""Reading: the homes merged in one transaction, so that a row that moves is neither missed nor seen twice."""

from typing import Any
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Run
from duetime.model.job import Job
from duetime.store.protocol.store import Counts
from duetime.store.shared.job_rows import MOST_ATTEMPTS, attempts_each, ended_run, live_run, one_off, stored_job
from duetime.store.sqlite.connection import Connection
from duetime.store.sqlite.role import Role
from duetime.store.sqlite.values import identity, maybe_moment


class ReadingRole(Role):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        return await self.database.run(lambda connection, _: read_job(connection, tenant_id, job_id))

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        return await self.database.run(lambda connection, _: read_run(connection, tenant_id, run_id))

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        found = await self.database.run(lambda connection, _: runs_of_job(connection, tenant_id, job_id, limit))
        return [run for run, _, _ in found]

    async def counts(self) -> Counts:
        row = await self.database.run(lambda connection, _: connection.row("counts", {}))
        assert row is not None
        return Counts(*row)


def read_job(connection: Connection, tenant_id: int, job_id: UUID) -> Job:
    return find_job(connection, tenant_id, job_id)[0]


def find_job(connection: Connection, tenant_id: int, job_id: UUID) -> tuple[Job, bool | None]:
    """A job, wherever it lives; and whether it is recurring, as long as it is in its first home."""
    of_job = {"tenant_id": tenant_id, "job_id": job_id.bytes}
    for row in connection.records("find_job", of_job):
        return stored_job(row, maybe_moment(connection.value("next_live_run", of_job))), bool(row["recurring"])
    runs = runs_of_job(connection, tenant_id, job_id, 1)
    if not runs or connection.value("is_deleted", of_job):
        raise NotFound(f"there is no job {show('job', job_id)}")
    return one_off(*runs[0]), None


def read_run(connection: Connection, tenant_id: int, run_id: UUID) -> Run:
    wanted = {"tenant_id": tenant_id, "run_id": run_id.bytes, "job_id": None, "limit": 1}
    attempts = _attempts(connection, tenant_id, run_id, MOST_ATTEMPTS + 1)
    for row in connection.records("find_live_runs", wanted):
        return live_run(row, attempts, MOST_ATTEMPTS)
    if not attempts:
        raise NotFound(f"there is no run {show('run', run_id)}")
    return ended_run(attempts, MOST_ATTEMPTS)


def runs_of_job(
    connection: Connection, tenant_id: int, job_id: UUID, limit: int
) -> list[tuple[Run, bytes | None, int | None]]:
    wanted = {"tenant_id": tenant_id, "run_id": None, "job_id": job_id.bytes, "limit": limit}
    live = connection.records("find_live_runs", wanted)
    ended = [identity(row[0]) for row in connection.rows("ended_runs_of_job", wanted)]
    run_ids = [row["id"] for row in live] + ended
    most = attempts_each(len(run_ids))
    attempts = {run_id: _attempts(connection, tenant_id, run_id, most + 1) for run_id in run_ids}
    found = [(live_run(row, attempts[row["id"]], most), row["options"], row["timeout_ms"]) for row in live]
    for run_id in ended:
        last = attempts[run_id][-1]
        found.append((ended_run(attempts[run_id], most), last["options"], last["timeout_ms"]))
    found.sort(key=lambda item: item[0].id, reverse=True)
    return found[:limit]


def _attempts(connection: Connection, tenant_id: int, run_id: UUID, most: int) -> list[dict[str, Any]]:
    """The newest attempts of a run, oldest first."""
    of_run = {"tenant_id": tenant_id, "run_id": run_id.bytes, "most": most}
    return connection.records("find_attempts", of_run)[::-1]
