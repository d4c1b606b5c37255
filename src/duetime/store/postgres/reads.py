"""Reading: the homes merged in one snapshot, so that a row that moves is neither missed nor seen twice."""

from collections import defaultdict
from uuid import UUID

from duetime.errors import NotFound
from duetime.ids import show
from duetime.model.attempt import Run
from duetime.model.job import Job
from duetime.store.postgres.database import SQL, Connection, Row
from duetime.store.postgres.role import Role
from duetime.store.protocol.store import Counts
from duetime.store.shared.job_rows import MOST_ATTEMPTS, attempts_each, ended_run, live_run, one_off, stored_job


class ReadingRole(Role):
    async def job(self, tenant_id: int, job_id: UUID) -> Job:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            job, _ = await find_job(connection, tenant_id, job_id)
        return job

    async def run(self, tenant_id: int, run_id: UUID) -> Run:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return await find_run(connection, tenant_id, run_id)

    async def runs_of_job(self, tenant_id: int, job_id: UUID, limit: int = 100) -> list[Run]:
        async with self.database.acting_for(tenant_id, snapshot=True) as connection:
            return [run for run, _, _ in await runs_of_job(connection, tenant_id, job_id, limit)]

    async def counts(self) -> Counts:
        row = await self.database.fetchrow("counts")
        assert row is not None
        return Counts(*row)


async def find_job(connection: Connection, tenant_id: int, job_id: UUID) -> tuple[Job, bool | None]:
    """A job, wherever it lives; and whether it is recurring, as long as it is in its first home."""
    row = await connection.fetchrow(SQL["find_job"], tenant_id, job_id)
    if row is not None:
        job = stored_job(row, await connection.fetchval(SQL["next_live_run"], tenant_id, job_id))
        return job, row["recurring"]
    # The same statements for a deleted job, another tenant's and one that never was.
    runs = await runs_of_job(connection, tenant_id, job_id, 1)
    if not runs or await connection.fetchval(SQL["is_deleted"], tenant_id, job_id):
        raise NotFound(f"there is no job {show('job', job_id)}")
    return one_off(*runs[0]), None


async def find_run(connection: Connection, tenant_id: int, run_id: UUID) -> Run:
    live = await connection.fetch(SQL["find_live_runs"], tenant_id, run_id, None, 1)
    attempts = await connection.fetch(SQL["find_attempts"], tenant_id, [run_id], MOST_ATTEMPTS + 1)
    if live:
        return live_run(live[0], attempts, MOST_ATTEMPTS)
    if not attempts:
        raise NotFound(f"there is no run {show('run', run_id)}")
    return ended_run(attempts, MOST_ATTEMPTS)


async def runs_of_job(
    connection: Connection, tenant_id: int, job_id: UUID, limit: int
) -> list[tuple[Run, bytes | None, int | None]]:
    live = await connection.fetch(SQL["find_live_runs"], tenant_id, None, job_id, limit)
    ended = [row[0] for row in await connection.fetch(SQL["ended_runs_of_job"], tenant_id, job_id, limit)]
    attempts: dict[UUID, list[Row]] = defaultdict(list)
    run_ids = [row["id"] for row in live] + ended
    most = attempts_each(len(run_ids))
    for row in await connection.fetch(SQL["find_attempts"], tenant_id, run_ids, most + 1):
        attempts[row["run_id"]].append(row)
    found = [(live_run(row, attempts[row["id"]], most), row["options"], row["timeout_ms"]) for row in live]
    for run_id in ended:
        last = attempts[run_id][-1]
        found.append((ended_run(attempts[run_id], most), last["options"], last["timeout_ms"]))
    found.sort(key=lambda item: item[0].id, reverse=True)
    return found[:limit]
